"""Generate `shoal.sync._generated`, the classes of `shoal.library` with methods that block, and `shoal.library._generated`.

The latter has the type `Options`: the fields of `shoal.settings.Settings`, by which `Shoal.open` accepts settings by name.

    python -m scripts.sync_library

`hatch_build.py` runs it in every build, and `make` when the library is newer than the generated module. It parses the
sources without importing them and needs only the standard library.
"""

from __future__ import annotations

import ast
import builtins
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
TARGET = SOURCE / "shoal" / "sync" / "_generated.py"
OPTIONS = SOURCE / "shoal" / "library" / "_generated.py"
COMMAND = "python -m scripts.sync_library"

_ENTRY = "shoal.library.network.Shoal"
_PROXIES = {
    "shoal.library.acting.Seeing": "Proxy",
    "shoal.library.acting.Owned": "Proxy",
    "shoal.library.acting.Acting": "MemberProxy",
}
"""Base classes of the library that have a hand-written counterpart in `shoal.sync.proxies`."""
_HEAD = f'''"""The classes of `shoal.library` with blocking methods.

Generated from `src/shoal/library` by `{COMMAND}`: changes to this file are lost.
"""'''


def generate() -> str:
    """Return the text of the generated module."""
    return _Generator().module()


def generate_options() -> str:
    """Return the text of the module with `Options`, which has all fields of `Settings` except `store`, the URL."""
    fields = {
        ast.unparse(field.target): _WithoutLimits().visit(field.annotation)
        for field in _class("shoal.settings.Settings").body
        if isinstance(field, ast.AnnAssign)
    }
    del fields["store"]
    names = {one.id for hint in fields.values() for one in ast.walk(hint) if isinstance(one, ast.Name)}
    own = sorted(names & _classes("shoal.settings").keys())
    lines = [f"    {name}: {ast.unparse(hint)}" for name, hint in fields.items()]
    return f'''"""The settings that `Shoal.open` accepts by name.

Generated from `src/shoal/settings.py` by `{COMMAND}`: changes to this file are lost.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from shoal.settings import {", ".join(own)}


class Options(TypedDict, total=False):
    """The fields of `shoal.settings.Settings`, which documents them, except `store`, the URL."""

{chr(10).join(lines)}
'''


class _WithoutLimits(ast.NodeTransformer):
    """Replaces `Annotated` types, and the names of such types in `shoal.settings`, by the plain types."""

    def __init__(self) -> None:
        assigned = [node for node in _tree("shoal.settings").body if isinstance(node, ast.Assign)]
        self._named = {ast.unparse(node.targets[0]): node.value for node in assigned}

    def visit_Name(self, node: ast.Name) -> Any:
        return self.visit(self._named[node.id]) if node.id in self._named else node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        match node:
            case ast.Subscript(ast.Name("Annotated"), ast.Tuple([plain, *_])):
                return self.visit(plain)
        return self.generic_visit(node)


class _Generator:
    def __init__(self) -> None:
        self._classes: list[ast.ClassDef] = []
        self._queue = [_ENTRY]
        self._done: set[str] = set()
        self._imported: dict[str, str] = {}
        """Local names by what they are imported from, such as `shoal.core.model.Post`."""

    def module(self) -> str:
        while self._queue:
            self._mirror(self._queue.pop(0))
        names = [node.name for node in self._classes]
        if ambiguous := {name for name in names if names.count(name) > 1} | set(self._imported.values()) & set(names):
            raise ValueError(
                f"shoal.library: the generated module would define a name twice; rename: {', '.join(sorted(ambiguous))}"
            )
        parts = [_HEAD, "from __future__ import annotations", "\n".join(self._imports())]
        return "\n\n".join([*parts, *map(ast.unparse, self._classes)]) + "\n"

    def _imports(self) -> list[str]:
        names: dict[str, list[str]] = {}
        for origin, local in sorted(self._imported.items()):
            module, _, name = origin.rpartition(".")
            names.setdefault(module, []).append(name if local == name else f"{name} as {local}")
        library = sorted({f"import {origin.rpartition('.')[0]}" for origin in self._done})
        return library + [f"from {module} import {', '.join(imported)}" for module, imported in names.items()]

    def _mirror(self, origin: str) -> str:
        """Generate a class of the library after its bases, once, and return its name."""
        if origin in _PROXIES:
            return self._local(f"shoal.sync.proxies.{_PROXIES[origin]}")
        node = _class(origin)
        if origin in self._done:
            return node.name
        self._done.add(origin)
        bases: list[str] = []
        methods: list[ast.stmt] = []
        for base in (_origin(origin, ast.unparse(one)) for one in node.bases):
            if base.startswith("shoal.library."):
                bases.append(self._mirror(base))
            else:
                # The methods of a class that other packages use directly become methods of the generated class.
                methods += self._methods(base)
        methods += self._methods(origin)
        if not bases:
            bases.append(self._local(f"shoal.sync.proxies.{'NetworkProxy' if origin == _ENTRY else 'Proxy'}"))
        head = f"class {node.name}({', '.join(bases)}):\n    _awaited: {origin}"
        made = _parsed_class(head)
        made.body = [_docstring(node), *made.body, *self._constructor(origin), *methods]
        self._classes.append(made)
        return node.name

    def _constructor(self, origin: str) -> list[ast.stmt]:
        """Return a constructor that wraps the attributes which are objects of the library; none without such attributes."""
        lines = [f"    self.{name} = {self._later(of)}(loop, awaited.{name})" for name, of in _attributes(origin)]
        if not lines:
            return []
        loop = self._local("shoal.sync.loops.LoopThread")
        head = f"def __init__(self, loop: {loop}, awaited: {origin}) -> None:\n    super().__init__(loop, awaited)\n"
        return ast.parse(head + "\n".join(lines)).body

    def _methods(self, origin: str) -> list[ast.stmt]:
        return [
            self._method(origin, one)
            for one in _class(origin).body
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            # `NetworkProxy` has its own `open`.
            if not one.name.startswith("_") and (origin, one.name) != (_ENTRY, "open")
        ]

    def _method(self, origin: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
        call = f"self._awaited.{node.name}({', '.join(_passed_on(node.args))})"
        match node.returns:
            case None:
                raise TypeError(f"{origin}.{node.name} has no return type")
            case ast.Subscript(ast.Name("AsyncGenerator"), ast.Tuple([item, _])):
                generator = self._local("collections.abc.Generator")
                answer = f"{generator}[{self._annotation(origin, item)}, None, None]"
                body = f"return self._loop.each({call})"
            case ast.Name(name) if _is_mirrored(_origin(origin, name)):
                answer = self._later(_origin(origin, name))
                body = f"return {answer}(self._loop, self._loop.call({call}))"
            case ast.Constant(None):
                answer, body = "None", f"self._loop.call({call})"
            case returned:
                answer, body = self._annotation(origin, returned), f"return self._loop.call({call})"
        head = f"def {node.name}({self._annotation(origin, node.args)}) -> {answer}:\n    {body}"
        (made,) = ast.parse(head).body
        assert isinstance(made, ast.FunctionDef)
        made.body.insert(0, _docstring(node))
        return made

    def _annotation(self, origin: str, node: ast.AST) -> str:
        """Return a part of a signature, with the names that it has in the generated module."""
        used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} - set(dir(builtins))
        names = {name: self._local(_origin(origin, name), name) for name in sorted(used)}
        return ast.unparse(_Renaming(names).visit(node))

    def _later(self, origin: str) -> str:
        self._queue.append(origin)
        return _class(origin).name

    def _local(self, origin: str, name: str = "") -> str:
        """Return the name of an import: the one that the library uses, or the full path if that name is taken."""
        if origin not in self._imported:
            name = name or origin.rpartition(".")[2]
            taken = name in self._imported.values()
            self._imported[origin] = origin.replace(".", "_") if taken else name
        return self._imported[origin]


class _Renaming(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)


@functools.cache
def _tree(module: str) -> ast.Module:
    return ast.parse(SOURCE.joinpath(*module.split(".")).with_suffix(".py").read_text())


@functools.cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in _tree(module).body if isinstance(node, ast.ClassDef)}


def _class(origin: str) -> ast.ClassDef:
    module, _, name = origin.rpartition(".")
    return _classes(module)[name]


def _origin(where: str, name: str) -> str:
    """Return the full path of a name that the module of a class uses."""
    module = where.rpartition(".")[0]
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return f"{node.module}.{alias.name}"
    return f"{module}.{name}"


def _is_mirrored(origin: str) -> bool:
    """Return whether this is a class of the library with methods, unlike its named tuples and the types of other packages."""
    module, _, name = origin.rpartition(".")
    if not module.startswith("shoal.library.") or name not in _classes(module):
        return False
    return "NamedTuple" not in map(ast.unparse, _class(origin).bases)


def _attributes(origin: str) -> Iterator[tuple[str, str]]:
    """Yield the attributes that a constructor fills with objects of the library, and the classes of these."""
    for function in _class(origin).body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            for line in function.body:
                match line:
                    case ast.Assign([ast.Attribute(ast.Name("self"), name)], ast.Call(ast.Name(called))):
                        if (of := _origin(origin, called)).startswith("shoal.library."):
                            yield name, of


def _passed_on(arguments: ast.arguments) -> list[str]:
    given = [one.arg for one in (*arguments.posonlyargs, *arguments.args)][1:]
    if arguments.vararg:
        given.append(f"*{arguments.vararg.arg}")
    return given + [f"{one.arg}={one.arg}" for one in arguments.kwonlyargs]


def _docstring(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
    return ast.Expr(ast.Constant(ast.get_docstring(node, clean=False) or ""))


def _parsed_class(text: str) -> ast.ClassDef:
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.ClassDef)
    return node


def main() -> None:
    for target, text in ((TARGET, generate()), (OPTIONS, generate_options())):
        unfinished = target.with_suffix(f".{os.getpid()}.tmp")
        unfinished.write_text(text)
        unfinished.replace(target)


if __name__ == "__main__":
    main()
