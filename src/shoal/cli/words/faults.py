"""Faults of a simulation as people type them: slow:at=60,by=20,part=10%."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from shoal.cli.words.numbers import parsed
from shoal.ops.planner.simulation.faults import KINDS, AnyFault

_KINDS = {str(kind.__struct_config__.tag): kind for kind in KINDS}


class FaultOption(click.ParamType[AnyFault]):
    """A kind of fault, and what is to be other than usual of it."""

    name = "fault"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> AnyFault:
        """Return the fault; fail with what is allowed."""
        kind, _, rest = str(value).partition(":")
        if kind not in _KINDS:
            self.fail(f"{value!r} begins with no kind of fault: {', '.join(_KINDS)}", param, ctx)
        numbers: dict[str, float] = {}
        for word in filter(None, rest.split(",")):
            name, _, text = word.partition("=")
            if name not in _KINDS[kind].__struct_fields__:
                self.fail(f"{word!r}: a fault `{kind}` has {_allowed(kind)}, as in at=60", param, ctx)
            try:
                numbers[name] = parsed(text)
            except ValueError:
                self.fail(f"{word!r} has no number such as 60, 0.5 or 30%", param, ctx)
        try:
            return msgspec.convert({"kind": kind, **numbers}, _KINDS[kind])
        except msgspec.ValidationError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


def _allowed(kind: str) -> str:
    return ", ".join(_KINDS[kind].__struct_fields__)
