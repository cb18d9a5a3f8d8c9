"""Web push: the key of the server, and who sends the messages."""

from __future__ import annotations

from ipaddress import ip_network

from shoal.core.errors import InvalidInput
from shoal.push.connections import Network
from shoal.push.courier import Courier
from shoal.push.server_key import ServerKey, kept_key, read_key
from shoal.settings import Settings
from shoal.wiring.places import base_url, push_key_path


def open_key(settings: Settings) -> ServerKey | None:
    """Return the key for web push: as set, or kept beside the store's first file, made where there is none yet.

    None for a store without files. Raises `InvalidInput` for a setting that cannot be.
    """
    path = push_key_path(settings)
    if settings.push_key:
        private = read_key(settings.push_key)
    elif path is not None:
        private = kept_key(path)
    else:
        return None
    contact = f"mailto:{settings.contact_email}" if settings.contact_email else base_url(settings)
    return ServerKey(private, contact)


def open_courier(settings: Settings, key: ServerKey) -> Courier:
    """Return who sends messages. Raises `InvalidInput` for a setting that cannot be."""
    return Courier(key, base_url(settings), _networks(settings))


def _networks(settings: Settings) -> list[Network]:
    try:
        return [ip_network(network) for network in settings.push_networks]
    except ValueError as error:
        raise InvalidInput(f"push_networks: {error}", field="push_networks") from error
