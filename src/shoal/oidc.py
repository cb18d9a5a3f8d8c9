"""OpenID Connect login: requests to the login providers in the settings, and verification of their ID tokens.

The authorization code flow with PKCE, a nonce, and a redirect URI of its own for each provider. The metadata of a provider are
cached for an hour, and then fetched again in the background; if a fetch fails, they remain valid for a day. ID tokens are
verified like other JWTs (`issuers`). Each process waits for a provider in at most 16 requests, and ten seconds in each.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import quote_plus, urlencode, urlsplit

import idna
import msgspec
from msgspec import Meta

from shoal.core.errors import InvalidInput, Unauthenticated, Unavailable
from shoal.core.external_ids import ExternalId
from shoal.core.text import check_email
from shoal.issuers import InvalidJwt, Issuers
from shoal.outgoing import OutgoingResponse, RequestFailed, networks_of, open_pool, request
from shoal.settings import Issuer, OidcProvider, Settings
from shoal.tasks import cancel

_log = logging.getLogger("shoal.logins")

T = TypeVar("T")

_FRESH_SECONDS = 3_600.0
_STALE_SECONDS = 86_400.0
_RETRY_SECONDS = 10.0
_REQUEST_SECONDS = 5.0
_LOGIN_SECONDS = 10.0
"""Timeout of all requests of a login to the provider together."""
_MOST_WAITING = 16
"""Maximum requests of this process that wait for a provider concurrently. Further ones are refused."""
_ID_TOKEN_SECONDS = 600
"""Maximum age of an ID token."""
REAUTHENTICATED_SECONDS = 300
"""Maximum age of a login at the provider that confirms who the member is."""
_SKEW_SECONDS = 30

_Url = Annotated[str, Meta(max_length=2_000, pattern=r"^https://[!-~]+\Z")]


class LoginRefused(Unauthenticated):
    """The provider did not log the user in, or its response is invalid. The message states the reason, for logs."""


class DomainRefused(LoginRefused):
    """The user has no verified e-mail address in one of the provider's `email_domains`."""


class OidcUser(NamedTuple):
    """A user whom a provider has authenticated. Names and address are empty if the provider does not state them."""

    external: ExternalId
    user_name: str
    name: str
    email: str
    """A verified e-mail address."""
    claimed: str = ""
    """An address that the provider has not verified. It is used only to check whether it is blocked."""


class AuthorizationRequest(NamedTuple):
    """The secrets of an authorization request, which the browser keeps until the provider's response."""

    state: str
    nonce: str
    verifier: str
    """The code verifier (RFC 7636)."""


class _Metadata(msgspec.Struct, frozen=True):
    """The metadata of a provider (OpenID Connect Discovery 1.0, 3)."""

    issuer: str
    authorization_endpoint: _Url
    token_endpoint: _Url
    jwks_uri: _Url
    userinfo_endpoint: _Url | None = None
    end_session_endpoint: _Url | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class _Tokens(msgspec.Struct, frozen=True):
    id_token: str
    access_token: str = ""


class _TokenError(msgspec.Struct, frozen=True):
    """The refusal of a code (RFC 6749, 5.2)."""

    error: str = ""
    error_description: str = ""


class Providers:
    """The login providers in the settings. Nothing is fetched before first use."""

    def __init__(
        self,
        settings: Settings,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Check the settings. Raises `InvalidInput`."""
        self._providers = {
            name: _Provider(name, provider, settings, now, clock) for name, provider in settings.oidc_providers.items()
        }
        if not (settings.password_login or settings.oidc_providers or settings.issuers):
            raise InvalidInput("password_login: false requires oidc_providers or issuers", field="password_login")

    @property
    def titles(self) -> Mapping[str, str]:
        """The titles of the providers by name, in the order of the settings."""
        return {name: provider.settings.title for name, provider in self._providers.items()}

    @property
    def issuers(self) -> frozenset[str]:
        return frozenset(provider.settings.issuer for provider in self._providers.values())

    def reauthenticates(self, name: str) -> bool:
        """Return whether a provider can confirm that a user has just logged in; false for an unknown name."""
        return name in self._providers and self._providers[name].settings.reauthentication

    def issuer(self, name: str) -> str:
        """Return the issuer of a provider; empty for an unknown name."""
        return self._providers[name].settings.issuer if name in self._providers else ""

    async def authorization_url(
        self, name: str, redirect_uri: str, asked: AuthorizationRequest, *, again: bool = False
    ) -> str:
        """Return the URL at which the user logs in; with `again`, even a user with a session at the provider.

        Raises `Unavailable` if the metadata of the provider cannot be fetched, or too many requests wait for the provider.
        """
        provider = self._providers[name]
        async with provider.waiting():
            metadata = await provider.metadata()
        query = {
            "response_type": "code",
            "client_id": provider.settings.client_id,
            "redirect_uri": redirect_uri,
            "scope": provider.settings.scopes,
            "state": asked.state,
            "nonce": asked.nonce,
            "code_challenge": _base64(sha256(asked.verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        if again:
            query |= {"prompt": "login", "max_age": str(REAUTHENTICATED_SECONDS)}
        return _with_query(metadata.authorization_endpoint, query)

    async def user(
        self, name: str, redirect_uri: str, asked: AuthorizationRequest, code: str, iss: str, *, again: bool = False
    ) -> OidcUser:
        """Exchange an authorization code, and return its user. The caller has compared the `state`.

        Args:
            name: The provider.
            redirect_uri: The redirect URI of the authorization request.
            asked: The secrets of this request.
            code: The authorization code.
            iss: The issuer that the response states (RFC 9207); empty if it states none.
            again: Whether the user must have logged in within the last minutes.

        Raises:
            LoginRefused: The code or the ID token is invalid.
            Unavailable: The provider cannot be reached, or too many requests wait for it.
        """
        provider = self._providers[name]
        async with provider.waiting():
            return await provider.user(redirect_uri, asked, code, iss, again=again)

    async def end_session_url(self, name: str, back: str) -> str:
        """Return the URL at which the user's session at the provider ends; empty if the settings or the provider have none."""
        provider = self._providers.get(name)
        if provider is None or not provider.settings.end_session:
            return ""
        try:
            async with provider.waiting():
                endpoint = (await provider.metadata()).end_session_endpoint
        except Unavailable:
            return ""
        query = {"client_id": provider.settings.client_id, "post_logout_redirect_uri": back}
        return _with_query(endpoint, query) if endpoint else ""

    async def key_counts(self) -> dict[str, int | str]:
        """Return the number of usable keys of each provider, or why they cannot be fetched. For `shoal doctor`."""
        return {name: await provider.key_count() for name, provider in self._providers.items()}

    async def close(self) -> None:
        for provider in self._providers.values():
            await provider.close()


class _Provider:
    def __init__(
        self, name: str, settings: OidcProvider, network: Settings, now: Callable[[], float], clock: Callable[[], float]
    ) -> None:
        try:
            parts = urlsplit(settings.issuer)
        except ValueError:
            # A malformed IPv6 address.
            parts = urlsplit("")
        if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username is not None:
            raise InvalidInput(
                f"oidc_providers: {name}: issuer: expected an https URL without query", field="oidc_providers"
            )
        if "openid" not in settings.scopes.split():
            raise InvalidInput(f"oidc_providers: {name}: scopes: openid is missing", field="oidc_providers")
        try:
            self._domains = frozenset(_domain(domain) for domain in settings.email_domains)
        except idna.IDNAError as error:
            raise InvalidInput(f"oidc_providers: {name}: email_domains: {error}", field="oidc_providers") from None
        self.settings = settings
        self._name = name
        self._network, self._now, self._clock = network, now, clock
        self._pool = open_pool(networks_of(network.outgoing_networks, "outgoing_networks"))
        self._metadata: _Metadata | None = None
        self._fetched_at = self._tried_at = float("-inf")
        self._trouble = ""
        self._task: asyncio.Task[None] | None = None
        self._keys: Issuers | None = None
        self._former_keys: Issuers | None = None
        self._slots = asyncio.Semaphore(_MOST_WAITING)

    @asynccontextmanager
    async def waiting(self) -> AsyncIterator[None]:
        """Limit the wait for the provider in a block. Raises `Unavailable` if it takes too long, or too many requests wait."""
        if self._slots.locked():
            raise Unavailable("too many requests wait for the login provider", retry_after=_RETRY_SECONDS)
        try:
            async with self._slots, asyncio.timeout(_LOGIN_SECONDS):
                yield
        except TimeoutError:
            message = f"the login provider did not respond within {_LOGIN_SECONDS:g} seconds"
            raise Unavailable(message, retry_after=_RETRY_SECONDS) from None

    async def metadata(self) -> _Metadata:
        """Return the metadata. Waits for a fetch only if there are none, or they are older than a day."""
        now = self._clock()
        if now - self._fetched_at >= _FRESH_SECONDS and now - self._tried_at >= _RETRY_SECONDS:
            self._tried_at = now
            # An earlier fetch has ended, because the timeout of a request is shorter than this pause.
            self._task = asyncio.create_task(self._refresh(now), name="shoal-oidc-metadata")
        if now - self._fetched_at >= _STALE_SECONDS and self._task is not None:
            # Unlike `await`, this does not cancel the task, for which other requests wait, if the wait times out.
            await asyncio.wait((self._task,))
        if self._metadata is None or now - self._fetched_at >= _STALE_SECONDS:
            raise Unavailable(self._trouble or "the login provider cannot be reached", retry_after=_RETRY_SECONDS)
        return self._metadata

    async def _refresh(self, now: float) -> None:
        """Fetch the metadata. A failure keeps the current ones."""
        try:
            await self._set(await self._fetch())
        except RequestFailed as error:
            self._trouble = str(error)
            _log.warning("cannot fetch the metadata of the login provider %s: %s", self._name, error)
        else:
            self._fetched_at = now

    async def _fetch(self) -> _Metadata:
        url = f"{self.settings.issuer.removesuffix('/')}/.well-known/openid-configuration"
        found = _decoded(await self._request("GET", url), _Metadata)
        if found.issuer != self.settings.issuer:
            raise RequestFailed("the metadata have another issuer")
        return found

    async def _set(self, found: _Metadata) -> None:
        if self._metadata is None or self._metadata.jwks_uri != found.jwks_uri:
            issuer = Issuer(
                audience=self.settings.client_id, jwks_url=found.jwks_uri, max_age_seconds=_ID_TOKEN_SECONDS
            )
            network = msgspec.structs.replace(self._network, issuers={found.issuer: issuer})
            unused, self._former_keys = self._former_keys, self._keys
            self._keys = Issuers(network, now=self._now, clock=self._clock)
            # Logins in progress may still verify their tokens with the former keys, but not with those before.
            if unused is not None:
                await unused.close()
        self._metadata = found

    async def user(
        self, redirect_uri: str, asked: AuthorizationRequest, code: str, iss: str, *, again: bool
    ) -> OidcUser:
        metadata = await self.metadata()
        if iss != metadata.issuer and (iss or metadata.authorization_response_iss_parameter_supported):
            raise LoginRefused("the response is from another issuer")
        tokens = await self._exchange(metadata, redirect_uri, code, asked.verifier)
        external, claims = await self._verified(tokens.id_token, asked.nonce, again=again)
        names = self.settings.claims
        address = {names.email, names.email_verified} - {""}
        mapped = address | ({names.user_name, names.name} - {""})
        more: dict[str, Any] = {}
        if metadata.userinfo_endpoint and tokens.access_token and mapped - claims.keys():
            headers = {"Authorization": f"Bearer {tokens.access_token}", "Accept": "application/json"}
            try:
                more = _decoded(await self._request("GET", metadata.userinfo_endpoint, headers), dict[str, Any])
            except RequestFailed as error:
                # Sign-up blocks and `email_domains` depend on the address, so a login without it must not succeed.
                if address - claims.keys():
                    raise
                _log.warning("cannot fetch the userinfo from the login provider %s: %s", self._name, error)
            else:
                # OpenID Connect Core 1.0, 5.3.2: the subject must be that of the ID token.
                if more.get("sub") != external.id:
                    raise LoginRefused("the userinfo are of another user")
        # `email_verified` is about the address of the same source, which may differ from that of the other one.
        source = more if address - claims.keys() else claims
        verified = source.get(names.email_verified)
        claims = {**more, **claims}
        stated = _text(source, names.email) or _text(claims, names.email)
        email = _text(source, names.email) if verified is True or verified == "true" else ""
        try:
            stated = check_email(stated) if stated else ""
            email = stated if email else ""
            domain = _domain(email.rpartition("@")[2]) if self._domains and email else ""
        except (InvalidInput, idna.IDNAError):
            stated = email = domain = ""
        if self._domains and domain not in self._domains:
            raise DomainRefused(f"the verified address is in none of the domains {', '.join(sorted(self._domains))}")
        return OidcUser(
            external, _text(claims, names.user_name), _text(claims, names.name), email, "" if email else stated
        )

    async def _exchange(self, metadata: _Metadata, redirect_uri: str, code: str, verifier: str) -> _Tokens:
        settings = self.settings
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        form |= {"client_id": settings.client_id, "code_verifier": verifier}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if settings.client_secret and "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            # RFC 6749, 2.3.1: both are encoded as in a form.
            pair = f"{quote_plus(settings.client_id)}:{quote_plus(settings.client_secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        elif settings.client_secret:
            form["client_secret"] = settings.client_secret
        response = await self._request("POST", metadata.token_endpoint, headers, urlencode(form).encode())
        if 400 <= response.status < 500:
            raise LoginRefused(f"the token endpoint responded with status {response.status}: {_reason(response)}")
        return _decoded(response, _Tokens)

    async def _verified(self, text: str, nonce: str, *, again: bool) -> tuple[ExternalId, dict[str, Any]]:
        if self._keys is None:
            raise Unavailable("the login provider cannot be reached")
        try:
            external = (await self._keys.verify(text)).external
        except InvalidJwt as error:
            raise LoginRefused(f"ID token: {error}") from None
        claims: dict[str, Any] = msgspec.json.decode(base64.urlsafe_b64decode(f"{text.split('.')[1]}=="))
        if claims.get("nonce") != nonce:
            raise LoginRefused("ID token: the nonce is of another request")
        # OpenID Connect Core 1.0, 3.1.3.7: a token for several audiences must name this client as its authorized party.
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if several else self.settings.client_id) != self.settings.client_id:
            raise LoginRefused("ID token: it was issued to another client")
        # The browser could remove `prompt` and `max_age` from the request. A provider need not state `auth_time` then (OpenID
        # Connect Core 1.0, 2), so a missing one says that the user may not have logged in again.
        at, now = claims.get("auth_time"), self._now()
        recent = (
            isinstance(at, int | float) and now - REAUTHENTICATED_SECONDS - _SKEW_SECONDS <= at <= now + _SKEW_SECONDS
        )
        if again and not recent:
            raise LoginRefused("ID token: the user did not log in again")
        return external, claims

    async def key_count(self) -> int | str:
        try:
            await self.metadata()
            return next(iter((await self._keys.key_counts()).values())) if self._keys else 0
        except Unavailable as error:
            return str(error)

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, content: bytes = b""
    ) -> OutgoingResponse:
        return await request(self._pool, method, url, seconds=_REQUEST_SECONDS, headers=headers or {}, content=content)

    async def close(self) -> None:
        await cancel(self._task)
        await self._pool.aclose()
        for keys in (self._former_keys, self._keys):
            if keys is not None:
                await keys.close()


def _decoded(response: OutgoingResponse, kind: type[T]) -> T:
    if response.status != 200:
        raise RequestFailed(f"status {response.status}")
    try:
        return msgspec.json.decode(response.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestFailed(f"unexpected response: {error}") from None


def _reason(response: OutgoingResponse) -> str:
    """Return the reason in a response of the token endpoint. The rest is not logged, as it may repeat the code or the secret."""
    try:
        found = msgspec.json.decode(response.body, type=_TokenError)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "no reason"
    return f"{found.error[:100]!r} {found.error_description[:200]!r}"


def _domain(text: str) -> str:
    """Return a domain in the form in which domains are compared (IDNA 2008, in lower case)."""
    return idna.encode(text.strip(), uts46=True).decode().lower()


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    return "".join(filter(str.isprintable, value)) if isinstance(value, str) else ""


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _with_query(url: str, query: Mapping[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"
