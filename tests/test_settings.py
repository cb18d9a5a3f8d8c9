"""Settings are passed to child processes without loss, through the environment or a file."""

from __future__ import annotations

import tomllib
import traceback
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shoal.settings import (
    SECRET,
    Issuer,
    OidcClaims,
    OidcProvider,
    Settings,
    SettingsError,
    environment,
    load,
    secret_files,
)
from shoal_devcluster.cluster import SETTINGS_FILE, _write

OTHER: dict[str, Any] = {
    "store": {"0-31": "sqlite:///one.db", "32-63": "sqlite:///two.db"},
    "rules": ("Be kind.", 'Say "please", or [do not].'),
    "trusted_proxies": ("10.0.0.0/8", "2001:db8::1"),
    "push_networks": ("10.1.0.0/16",),
    "outgoing_networks": ("10.2.0.0/16",),
    "webhook_networks": ("10.3.0.0/16",),
    "issuers": {
        "https://shop.example": Issuer(audience="shoal", jwks_url="https://shop.example/jwks.json"),
        "https://kiosk.example": Issuer(
            audience="shoal", keys=({"kty": "EC", "key_ops": ["verify"]},), token_seconds=60
        ),
    },
    "oidc_providers": {
        "example": OidcProvider(
            issuer="https://id.example",
            client_id="shoal",
            client_secret="s",
            title="Example",
            email_domains=("a.example",),
        ),
        "other": OidcProvider(
            issuer="https://id2.example", client_id="shoal", title="Other", claims=OidcClaims(user_name="nickname")
        ),
    },
    "limits": {"api": "600/5m", "signup": "off"},
    "recipe": {"weights": {"friends": 4.0, "seen": -6.0}, "half_life_hours": 12.5},
    "log_format": "json",
    "request_log": "all",
    "log_level": "debug",
    "moderation_hook_failure": "hold",
    "email_confirmation": "required",
    "invitations": "members",
    "tag_cloud_refresh": "poll",
    "event_log": "on",
}
"""Values that `_another` does not derive from the default."""


def _another(name: str, default: Any) -> Any:
    if name in OTHER:
        return OTHER[name]
    if isinstance(default, bool):
        return not default
    if isinstance(default, int | float):
        return default + 1
    if isinstance(default, tuple | dict):
        pytest.fail(f"give {name} another value here")
    return f"{default}?"


CHANGED = Settings(**{name: _another(name, getattr(Settings(), name)) for name in Settings.__struct_fields__})


@pytest.mark.parametrize("settings", [Settings(), CHANGED], ids=["as they ship", "all others"])
def test_settings_environment_round_trip_is_lossless(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shoal.toml").write_text('title = "of a file that happens to lie here"\nrules = ["Of the file."]')
    assert load(environment(settings)) == settings


def test_cluster_settings_file_round_trip_is_lossless(tmp_path: Path) -> None:
    path = tmp_path / SETTINGS_FILE
    _write(path, CHANGED)
    assert msgspec.convert(tomllib.loads(path.read_text("utf-8")), Settings) == CHANGED


def test_setting_with_its_old_name_is_accepted_unless_one_source_has_both_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load({"SHOAL_LOUD_FROM": "7000"}).high_fan_out_from == 7_000
    assert load(environment(load({"SHOAL_LOUD_FROM": "7000"}))).high_fan_out_from == 7_000
    Path("shoal.toml").write_text("loud_from = 8000")
    assert load({}).high_fan_out_from == 8_000
    assert load({"SHOAL_HIGH_FAN_OUT_FROM": "9000"}).high_fan_out_from == 9_000
    both = {"SHOAL_LOUD_FROM": "1", "SHOAL_HIGH_FAN_OUT_FROM": "2"}
    with pytest.raises(SettingsError, match="loud_from was renamed to high_fan_out_from: set only high_fan_out_from"):
        load(both)


def test_secret_setting_from_file_keeps_all_text_except_one_newline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tables = {
        "store": '{"0-63": "sqlite:///own.db"}\n',
        "oidc_providers": '{"id": {"issuer": "https://id.example", "client_id": "a", "client_secret": "b", "title": "Id"}}\n',
    }
    for name in SECRET:
        (tmp_path / name).write_text(tables.get(name, f"a%20secret of {name} \n\n"))
    given = load({f"SHOAL_{name.upper()}_FILE": str(tmp_path / name) for name in SECRET})
    assert given.store == {"0-63": "sqlite:///own.db"}
    assert given.oidc_providers["id"].client_secret == "b"
    texts = [name for name in SECRET if name not in tables]
    assert {name: getattr(given, name) for name in texts} == {name: f"a%20secret of {name} \n" for name in texts}


def test_secret_setting_from_systemd_credential_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shoal.toml").write_text('broker = "amqp://of-the-file/"\ntags = "memory://"')
    (tmp_path / "shoal.broker").write_text("amqp://u:p@one/")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert secret_files(environ) == {"broker": tmp_path / "shoal.broker"}
    found = load(environ)
    assert (found.broker, found.tags) == ("amqp://u:p@one/", "memory://")
    # The command line has the highest precedence.
    assert load(environ, broker="amqp://two/").broker == "amqp://two/"
    # A child takes its settings only from its parent.
    assert load(environ | environment(found)) == found


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        (
            {"SHOAL_BROKER": "amqp://x/", "SHOAL_BROKER_FILE": "good"},
            "broker is set more than once: by SHOAL_BROKER and by",
        ),
        (
            {"SHOAL_BROKER_FILE": "good", "CREDENTIALS_DIRECTORY": "."},
            "by SHOAL_BROKER_FILE and by the credential shoal.broker",
        ),
        ({"SHOAL_BROKER_FILE": "nowhere"}, "broker: cannot read nowhere: No such file or directory"),
        ({"SHOAL_BROKER_FILE": "."}, "broker: cannot read .: Is a directory"),
        ({"SHOAL_BROKER_FILE": "empty"}, "broker: empty is empty"),
        ({"SHOAL_BROKER_FILE": "long"}, "broker: long is longer than 65,536 bytes"),
        ({"SHOAL_BROKER_FILE": "bytes"}, "broker: bytes is not UTF-8 text"),
        ({"SHOAL_STORE_FILE": "map"}, "the shard map in store is not valid JSON"),
        (
            {"SHOAL_TITLE_FILE": "good"},
            "SHOAL_TITLE_FILE: only these settings can be read from files: store, timelines, broker",
        ),
    ],
)
def test_secret_setting_that_cannot_be_loaded_is_reported_without_its_value(
    environ: dict[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, data in {
        "good": b"hush",
        "shoal.broker": b"hush",
        "empty": b"\n",
        "long": b"hush" * 16_384 + b"!",
        "bytes": b"hush\xff",
        "map": b'{"0-63": "hush',
    }.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(SettingsError) as caught:
        load(environ)
    assert said in str(caught.value)
    assert "hush" not in "".join(traceback.format_exception(caught.value))
