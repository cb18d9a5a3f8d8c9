"""Make `shoal.sync` from `shoal.library`: each public method with the same arguments and docstring, and without `await`.

    python -m scripts.sync_library

A test compares what stands in `src/shoal/sync` with what is made here.
"""

from __future__ import annotations

import ast
import builtins
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "shoal"
TARGET = SOURCE / "sync"
BY_HAND = {"__init__", "calling", "loop_per_process", "loop_thread", "opening"}
"""Modules of `shoal.sync` that are not made."""

_NO_METHODS = {"__init__", "acting", "arguments", "options"}
"""Modules of `shoal.library` that are not mirrored."""
_BASES = {"Seeing": ("calling", "Calling"), "Acting": ("calling", "Acting")}
"""Classes of the library that stand for others in `shoal.sync`, and the modules of these."""
_ELSEWHERE = {"Blocklists": "admin.blocklists"}
"""Bases outside the library, whose methods are taken into the class."""
_OPENING = {"open"}
"""Methods that are written by hand, in `opening.py`."""


@dataclass(frozen=True)
class Module:
    """A module of the package, read."""

    name: str
    tree: ast.Module

    @classmethod
    def read(cls, name: str) -> Module:
        """Read a module by its name below `shoal`."""
        path = SOURCE.joinpath(*name.split(".")).with_suffix(".py")
        return cls(f"shoal.{name}", ast.parse(path.read_text()))

    @property
    def stem(self) -> str:
        """Its own name, without the rooms it is in."""
        return self.name.rpartition(".")[2]

    @property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Its classes by name."""
        return {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}

    def import_of(self, name: str) -> str:
        """The statement that imports what the module calls by this name."""
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        renamed = f" as {alias.asname}" if alias.asname else ""
                        return f"from {node.module} import {alias.name}{renamed}"
        return f"from {self.name} import {name}"


@dataclass(frozen=True)
class Method:
    """A public method, and the module in which it stands."""

    module: Module
    node: ast.FunctionDef | ast.AsyncFunctionDef

    @property
    def answer(self) -> ast.expr:
        """The type of its answer."""
        if self.node.returns is None:
            raise TypeError(f"{self.module.name}: {self.node.name} has no type")
        return self.node.returns

    @property
    def streamed(self) -> ast.expr | None:
        """The type of what it yields; None for a method that is no asynchronous iterator."""
        match self.answer:
            case ast.Subscript(ast.Name("AsyncGenerator"), ast.Tuple([streamed, _])):
                return streamed
        return None

    def names(self) -> Iterator[str]:
        """Yield names that the signature uses."""
        for part in (self.node.args, self.answer):
            for node in ast.walk(part):
                if isinstance(node, ast.Name) and node.id not in (*dir(builtins), "AsyncGenerator"):
                    yield node.id


def made() -> dict[Path, str]:
    """Each module with the text that it must have."""
    sources = [path.stem for path in sorted((SOURCE / "library").glob("*.py")) if path.stem not in _NO_METHODS]
    modules = {name: Module.read(f"library.{name}") for name in sources}
    homes = {name: stem for stem, module in modules.items() for name in module.classes if _mirrored(module, name)}
    return {
        TARGET / f"{stem}.py": _formatted(_text(module, homes), TARGET / f"{stem}.py")
        for stem, module in modules.items()
        if stem in homes.values()
    }


def _mirrored(module: Module, name: str) -> bool:
    """Values, such as pages of answers, are what they are in both."""
    bases = {ast.unparse(base) for base in module.classes[name].bases}
    return "NamedTuple" not in bases


def _text(module: Module, homes: dict[str, str]) -> str:
    stem = module.stem
    imports = {f"from shoal.library import {stem} as awaited"}
    classes = [_class(module, node, homes, imports) for name, node in module.classes.items() if homes.get(name) == stem]
    mirrored = {name for name in homes if homes[name] != stem}
    for name in mirrored:
        if any(name in _words(text) for text in classes):
            imports.add(f"from shoal.sync.{homes[name]} import {name}")
    if any("Generator[" in text for text in classes):
        imports.add("from collections.abc import Generator")
    docstring = ast.get_docstring(module.tree) or ""
    head = f'"""{docstring}\n\nMade from `{module.name}` by `python -m scripts.sync_library`.\n"""'
    return "\n\n".join((head, "from __future__ import annotations", "\n".join(sorted(imports)), *classes))


def _class(module: Module, node: ast.ClassDef, homes: dict[str, str], imports: set[str]) -> str:
    bases: list[str] = []
    methods: list[Method] = []
    for base in map(ast.unparse, node.bases):
        if base in _ELSEWHERE:
            other = Module.read(_ELSEWHERE[base])
            methods += _public(other, other.classes[base])
        else:
            home, name = _BASES.get(base, (homes.get(base, ""), base))
            bases.append(name)
            if home != module.stem:
                imports.add(f"from shoal.sync.{home} import {name}")
    if node.name == "Shoal":
        bases = ["Opening"]
        imports.add("from shoal.sync.opening import Opening")
    elif not bases:
        bases = ["Calling"]
        imports.add("from shoal.sync.calling import Calling")
    methods += _public(module, node)
    lines = [f"class {node.name}({', '.join(bases)}):", f'    """{ast.get_docstring(node)}"""', ""]
    lines += [f"    _awaited: awaited.{node.name}", "", *_init(node, homes, imports)]
    for method in methods:
        lines += [*_method(method, homes), ""]
        imports.update(method.module.import_of(name) for name in method.names() if name not in homes)
    return "\n".join(lines)


def _public(module: Module, node: ast.ClassDef) -> list[Method]:
    functions = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [Method(module, one) for one in functions if not one.name.startswith("_") and one.name not in _OPENING]


def _init(node: ast.ClassDef, homes: dict[str, str], imports: set[str]) -> list[str]:
    """Write the constructor: what an object has besides methods is made when it is made."""
    things = [
        f"        self.{line.targets[0].attr} = {line.value.func.id}(loop, of.{line.targets[0].attr})"
        for one in node.body
        if isinstance(one, ast.FunctionDef) and one.name == "__init__"
        for line in one.body
        if isinstance(line, ast.Assign)
        and isinstance(line.targets[0], ast.Attribute)
        and isinstance(line.value, ast.Call)
        and isinstance(line.value.func, ast.Name)
        and line.value.func.id in homes
    ]
    if not things:
        return []
    imports.add("from shoal.sync.loop_thread import LoopThread")
    head = f"    def __init__(self, loop: LoopThread, of: awaited.{node.name}) -> None:"
    return [head, "        super().__init__(loop, of)", *things, ""]


def _method(method: Method, homes: dict[str, str]) -> list[str]:
    node, given = method.node, _passed_on(method.node.args)
    answer = ast.unparse(method.answer)
    call = f"self._awaited.{node.name}({', '.join(given)})"
    if method.streamed is not None:
        answer = f"Generator[{ast.unparse(method.streamed)}, None, None]"
        body = f"return self._loop.each({call})"
    elif answer in homes:
        body = f"return {answer}(self._loop, self._loop.call({call}))"
    elif answer == "None":
        body = f"self._loop.call({call})"
    else:
        body = f"return self._loop.call({call})"
    docstring = (ast.get_docstring(node, clean=False) or "").rstrip()
    closing = '\n        """' if "\n" in docstring else '"""'
    head = f"    def {node.name}({ast.unparse(node.args)}) -> {answer}:"
    return [head, f'        """{docstring}{closing}', f"        {body}"]


def _passed_on(arguments: ast.arguments) -> list[str]:
    given = [one.arg for one in (*arguments.posonlyargs, *arguments.args)][1:]
    if arguments.vararg:
        given.append(f"*{arguments.vararg.arg}")
    return given + [f"{one.arg}={one.arg}" for one in arguments.kwonlyargs]


def _words(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def _formatted(text: str, path: Path) -> str:
    for arguments in (["check", "--fix", "--quiet", "--select", "I"], ["format", "--quiet"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(path), "-"]
        text = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, check=True).stdout
    return text


def main() -> None:
    """Write the modules, and delete those that are not made any more."""
    texts = made()
    for path in TARGET.glob("*.py"):
        if path not in texts and path.stem not in BY_HAND:
            path.unlink()
    for path, text in texts.items():
        path.write_text(text)


if __name__ == "__main__":
    main()
