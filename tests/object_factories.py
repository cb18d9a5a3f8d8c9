"""Objects of every kind that the graph stores, derived from the model, so that new kinds and fields are tested automatically."""

from __future__ import annotations

import sys
from itertools import count
from typing import Any, get_args

import msgspec
from msgspec import inspect

from shoal.graph.schema import AnyNode

KINDS: tuple[type[msgspec.Struct], ...] = get_args(AnyNode)
TEXT = "a\0b ünï \N{UMBRELLA} \N{FISH}"
DATA = b"\x00\xff"


def bare(kind: type[msgspec.Struct], id_: int) -> Any:
    """Return an object with only its required fields."""
    numbers = count(1)
    needed = [field for field in _fields(kind) if field.required and field.name != "id"]
    return kind(**{"id": id_, **{field.name: _value(field.type, numbers) for field in needed}})


def filled(kind: type[msgspec.Struct], id_: int) -> Any:
    """Return an object in which every field differs from its default and from every other field."""
    numbers = count(1)
    return kind(**{**_values(kind, numbers), "id": id_})


def _values(kind: type, numbers: count[int]) -> dict[str, Any]:
    return {
        field.name: not field.default if isinstance(field.type, inspect.BoolType) else _value(field.type, numbers)
        for field in _fields(kind)
        if field.name != "id" or field.required
    }


def _fields(kind: type) -> tuple[inspect.Field, ...]:
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType | inspect.NamedTupleType)
    return described.fields


def _value(of: inspect.Type, numbers: count[int]) -> Any:
    match of:
        case inspect.UnionType(types=types):
            return _value(next(one for one in types if not isinstance(one, inspect.NoneType)), numbers)
        case inspect.StructType(cls=kind) | inspect.NamedTupleType(cls=kind):
            return kind(**_values(kind, numbers))
        case inspect.EnumType(cls=kind):
            return list(kind)[-1]
        case inspect.VarTupleType(item_type=item):
            return (_value(item, numbers), _value(item, numbers))
        case inspect.TupleType(item_types=items):
            return tuple(_value(item, numbers) for item in items)
        case inspect.DictType(key_type=key, value_type=value):
            return {_value(key, numbers): _value(value, numbers)}
        case inspect.LiteralType(values=values):
            return values[-1]
    return _scalar(of, numbers)


def _scalar(of: inspect.Type, numbers: count[int]) -> Any:
    match of:
        case inspect.BoolType():
            # This field may also be None, which is its default.
            return True
        case inspect.IntType(ge=least, le=most):
            return min(max(next(numbers), least or 0), most or sys.maxsize)
        case inspect.FloatType(ge=least):
            return -next(numbers) / 7 if least is None else least + next(numbers) / 7
        case inspect.StrType(max_length=longest):
            number = next(numbers)
            text = f"{TEXT} {number}"
            return text if longest is None or len(text) <= longest else f"{number:02}"
        case inspect.BytesType():
            return DATA + bytes([next(numbers)])
    raise TypeError(f"{of} has no example value: add a case for it")
