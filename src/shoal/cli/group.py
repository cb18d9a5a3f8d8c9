"""The `shoal` program: finds the command, and reports each error in one line with its fix."""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any, NamedTuple, NoReturn

import click

from shoal.core.errors import ShoalError, missing_package, with_cause
from shoal.graph.shard_map import parse_shard_map
from shoal.observability.request_log import log_to_stderr
from shoal.settings import Settings, SettingsError, load

PURPOSES = {
    "Run": {
        "init": "Write a settings file that explains every setting.",
        "demo": "Generate a network of fictional members, and serve it.",
        "serve": "Serve the network over HTTP.",
        "worker": "Process events, next to servers or on other machines.",
        "mail": "Test the mail settings.",
        "push": "Generate a key for web push.",
    },
    "Members": {
        "member": "Create, invite, list and suspend members, and set their passwords and roles.",
    },
    "Products": {
        "key": "Create, list, rotate and delete the server keys of other products.",
        "events": "Follow the event log of the network.",
        "kind": "Declare kinds of posts with data of their own.",
        "reaction": "Declare reactions to posts, in addition to likes and emoji.",
        "webhooks": "Send events to the URLs of other products.",
    },
    "Moderation": {
        "post": "Hide and unhide posts.",
        "held": "List, approve and reject content that waits for approval.",
        "block": "Block e-mail addresses and names at sign-up, and IP address ranges.",
        "moderation": "Manage moderation rules, and change many posts at once.",
        "audit": "List and export the audit log.",
    },
    "Content": {
        "feed": "Show the feed of a member, and explain its order.",
        "feeds": "Manage the named feeds of the server.",
        "suggestions": "Show the follow suggestions of a member, and explain them.",
        "rank": "Evaluate another recipe for the ranked feed.",
        "tags": "Show the tag cloud, and deny or merge tags.",
        "search": "Maintain the search index.",
    },
    "Data": {
        "import": "Import members, follows, posts and photos from CSV and JSONL.",
        "export": "Export a member's data to a directory or a zip file.",
        "project": "Keep SQL tables of the network up to date, for analyses.",
        "backup": "Write consistent backups next to a running server; list, verify and prune them.",
        "restore": "Restore a backup into an empty store.",
        "check": "Check the consistency of the store, and repair it.",
        "upgrade": "Upgrade stores of an older Shoal.",
        "move": "Copy a network to other stores.",
    },
    "Scale": {
        "cluster": "Run a small cluster on this machine.",
        "shards": "Show the distribution of the network over its stores, and move data sources while it runs.",
        "placement": "Show the placement of a name, and study the distribution of names.",
        "plan": "Estimate the resources and cost of a network.",
        "simulate": "Simulate a network under load and during failures.",
    },
    "Diagnose": {
        "doctor": "Check settings, engines, disks, proxy, TLS and mail, and suggest fixes.",
        "jobs": "List pending jobs, and retry failed ones.",
        "why-slow": "Show where a slow request spent its time.",
        "bench": "Run benchmarks.",
    },
}
"""Help texts of commands by purpose, in the order of `shoal --help`.

They are written here so that the help does not import the commands.
"""
COMMANDS = {name: text for commands in PURPOSES.values() for name, text in commands.items()}

_MODULES = {
    "audit": "moderation",
    "bench": "diagnostics",
    "block": "moderation",
    "check": "maintenance",
    "doctor": "diagnostics",
    "export": "transfer",
    "import": "transfer",
    "init": "setup",
    "mail": "setup",
    "moderation": "moderation_rules",
    "move": "maintenance",
    "post": "moderation",
    "push": "setup",
    "restore": "backup",
    "search": "maintenance",
    "suggestions": "feed",
    "upgrade": "maintenance",
    "why-slow": "diagnostics",
    "worker": "serve",
}
"""Modules of `shoal.cli` that are not named like their command."""

_PLUGGED_IN = {
    "cluster": "scale",
    "demo": "scale",
    "plan": "scale",
    "project": "project",
    "placement study": "study",
    "simulate": "scale",
}
"""Commands from other packages, each with the extra that contains its optional dependencies."""

_GROUP = "shoal.commands"

_log = logging.getLogger(__name__)

_BEFORE_SETTINGS = frozenset({"init", "doctor"})
"""Commands that run without valid settings: they get `GivenSettings`."""


_SERVERS = frozenset({"serve", "worker"})
"""Commands whose standard error is a log."""

_ATTRIBUTES = {"import": "import_", "why-slow": "why_slow"}
"""Function names that differ from the name of the command."""


def plugin_names() -> list[str]:
    """Return the command names in the entry-point group `shoal.commands`; a subcommand has a space (`placement study`)."""
    return sorted(entry.name.replace(".", " ") for entry in entry_points(group=_GROUP))


def plugin(name: str) -> click.Command | None:
    """Load a command from its entry point. If several packages provide it, Shoal's own is used. Return None if no package does."""
    entries = entry_points(group=_GROUP, name=name.replace(" ", "."))
    for entry in sorted(entries, key=lambda entry: entry.dist is None or entry.dist.name != "shoal"):
        with needing(name, _PLUGGED_IN.get(name, "")):
            command: click.Command = entry.load()
        return command
    return None


@contextlib.contextmanager
def needing(name: str, extra: str) -> Iterator[None]:
    """During the block, turn a missing dependency of a command into an error that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "shoal" or not extra:
            raise
        raise click.ClickException(f"`shoal {name}` {missing_package(error.name, extra)}") from None


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Pause garbage collection, which takes a seventh of the time of imports: what they create stays in use."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _short_help(name: str) -> str:
    try:
        command = plugin(name)
    except ImportError as error:
        return f"(cannot be imported: {error})"
    return command.get_short_help_str(100) if command else ""


class GivenSettings(NamedTuple):
    """Where the settings come from: command-line options and environment variables."""

    environ: Mapping[str, str]
    overrides: dict[str, str]


class Commands(click.Group):
    """A command group that imports a command only when the command is run, so that `shoal serve` does not import `shoal demo`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return [*COMMANDS, *(name for name in plugin_names() if name not in COMMANDS and " " not in name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # the same
        if cmd_name not in COMMANDS or cmd_name in _PLUGGED_IN:
            return None if {" ", "."} & set(cmd_name) else plugin(cmd_name)
        with needing(cmd_name, "scale,dynamodb"), _no_garbage_collection():
            module = importlib.import_module(f"shoal.cli.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, _ATTRIBUTES.get(cmd_name, cmd_name))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        others = {name: _short_help(name) for name in self.list_commands(ctx) if name not in COMMANDS}
        width = max(map(len, (*COMMANDS, *others)))
        for purpose, commands in {**PURPOSES, "Other": others}.items():
            if commands:
                with formatter.section(purpose):
                    # Pad the names to one width in all sections.
                    formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Ctrl-C exits with status 130, as shells expect. A server with a JSON log logs the error that ends it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(130)
        except (ShoalError, SettingsError, OSError) as error:
            if not (
                ctx.invoked_subcommand in _SERVERS and isinstance(ctx.obj, Settings) and ctx.obj.log_format == "json"
            ):
                raise
            _log.error("%s", with_cause(error))
            ctx.exit(1)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run like click, but print each error in one line. Exit with status 2 for a usage error and with 1 for other errors."""
        if not kwargs.get("standalone_mode", True):
            return super().main(*args, **kwargs)
        try:
            status = super().main(*args, **{**kwargs, "standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(error.exit_code)
        except click.UsageError as error:
            _end(_usage(error), error.exit_code)
        except click.Abort:
            _end("stopped", 130)
        except click.ClickException as error:
            _end(error.format_message(), error.exit_code)
        except (ShoalError, SettingsError, OSError) as error:
            _end(with_cause(error), 1)
        sys.exit(status if isinstance(status, int) else 0)


def _end(words: str, status: int) -> NoReturn:
    click.echo(f"shoal: {words}", err=True)
    sys.exit(status)


def _usage(error: click.UsageError) -> str:
    """Return the error message with a pointer to the help."""
    words = " ".join(error.format_message().split()).removesuffix(".")
    path = error.ctx.command_path if error.ctx is not None else "shoal"
    return f"{words}: see `{path} --help`"


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="shoal", message="%(prog)s %(version)s")
@click.option("--store", metavar="URL", help="Store of the network: sqlite:///shoal.db, or a shard map as JSON.")
@click.option("--media", metavar="URL", help="Location of media: file:///directory or s3://bucket.")
@click.option("--config", metavar="FILE", help="Settings file in TOML.  [default: shoal.toml, if there is one]")
@click.pass_context
def main(ctx: click.Context, store: str | None, media: str | None, config: str | None) -> None:
    """Shoal: a social-feed server."""
    environ = {**os.environ, "SHOAL_CONFIG": config} if config else os.environ
    if ctx.invoked_subcommand in _BEFORE_SETTINGS:
        overrides = {"store": store, "media": media}
        ctx.obj = GivenSettings(environ, {name: value for name, value in overrides.items() if value is not None})
        return
    settings = _checked(load(environ, store=store, media=media))
    log_to_stderr(settings.log_level, settings.log_format)
    ctx.obj = settings


def _checked(settings: Settings) -> Settings:
    for name in ("store", "search"):
        if not isinstance(setting := getattr(settings, name), str):
            try:
                parse_shard_map(setting)
            except ValueError as error:
                raise SettingsError(f"settings: {name}: {error}") from error
    return settings


pass_settings = click.make_pass_decorator(Settings)
