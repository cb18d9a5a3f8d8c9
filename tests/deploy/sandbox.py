"""Runs a command with the sandbox of a unit of `deploy/systemd`, as far as possible without systemd.

Usage: `sandbox.py UNIT USER -- COMMAND`. It applies these settings of the unit file: writable paths, the system call filter
(systemd expands the sets, libseccomp loads the filter), no memory that is both writable and executable, no capabilities, no new
privileges, address families, the umask and the limit of open files.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_TMP = Path("/tmp")  # noqa: S108
_ALLOW = 0x7FFF0000
_EPERM = 0x00050000 | errno.EPERM
_NO_NEW_PRIVS, _BOUNDING_DROP, _LAST_CAPABILITY = 38, 24, 63
_MASKED_EQUAL, _EQUAL = 7, 4
_EXEC, _WRITE = 4, 2
_FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16, "AF_PACKET": 17}


class _Comparison(ctypes.Structure):
    _fields_ = [
        ("argument", ctypes.c_uint),
        ("how", ctypes.c_int),
        ("one", ctypes.c_uint64),
        ("other", ctypes.c_uint64),
    ]


def lines(unit: Path, key: str) -> list[str]:
    """Return the values of a key, in order."""
    return [line.partition("=")[2] for line in unit.read_text().splitlines() if line.startswith(f"{key}=")]


def calls(unit: Path) -> set[str]:
    """Return the system calls that the unit allows."""
    allowed: set[str] = set()
    for line in lines(unit, "SystemCallFilter"):
        names = {call for word in line.removeprefix("~").split() for call in _expanded(word)}
        allowed = allowed - names if line.startswith("~") else allowed | names
    return allowed


def _expanded(word: str) -> set[str]:
    if not word.startswith("@"):
        return {word}
    told = subprocess.run(
        ["systemd-analyze", "syscall-filter", word], capture_output=True, text=True, check=True
    ).stdout
    words = [line.strip() for line in told.splitlines()[1:] if line.strip() and not line.strip().startswith("#")]
    return {call for each in words for call in _expanded(each)}


def _mount(unit: Path) -> None:
    def mount(*words: str) -> None:
        subprocess.run(["mount", *words], check=True)

    mount("--make-rprivate", "/")
    writable = [path for line in lines(unit, "ReadWritePaths") for path in line.split()]
    for path in writable:
        mount("--bind", path, path)
    assert lines(unit, "PrivateTmp") == ["yes"]
    _mount_private_tmp(mount)
    mount("-o", "remount,bind,ro", "/")
    for path in [path for line in lines(unit, "ReadOnlyPaths") for path in line.split()]:
        name = path.removeprefix("-")
        if Path(name).exists() or not path.startswith("-"):
            mount("--bind", name, name)
            mount("-o", "remount,bind,ro", name)


def _mount_private_tmp(mount: Callable[..., None]) -> None:
    """Mount an empty /tmp, as systemd does, and bind the program into it where the program itself is below /tmp.

    Descriptors opened beforehand still reach the directories that the new mount hides.
    """
    hidden = [(path, os.open(path, os.O_PATH)) for path in _program_directories() if path.is_relative_to(_TMP)]
    mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", str(_TMP))
    for path, descriptor in hidden:
        path.mkdir(parents=True, exist_ok=True)
        mount("--no-canonicalize", "--bind", f"/proc/{os.getpid()}/fd/{descriptor}", str(path))
        mount("-o", "remount,bind,ro", str(path))
        os.close(descriptor)


def _program_directories() -> list[Path]:
    """Return the directories from which this Python loads its modules, without nested directories."""
    found = {Path(name).resolve() for name in (sys.prefix, sys.base_prefix, *sys.path) if Path(name).is_dir()}
    return sorted(path for path in found if found.isdisjoint(path.parents))


def _filter(unit: Path) -> None:
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p

    def load(default: int, rules: list[tuple[int, str, list[_Comparison]]]) -> None:
        context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(default)))
        for action, name, comparisons in rules:
            number = library.seccomp_syscall_resolve_name(name.encode())
            if number >= 0:
                array = (_Comparison * len(comparisons))(*comparisons)
                added = library.seccomp_rule_add_array(
                    context, ctypes.c_uint32(action), number, len(comparisons), array
                )
                assert added == 0, (name, added)
        assert library.seccomp_load(context) == 0

    denied = [_rule("mprotect", 2, _EXEC), _rule("pkey_mprotect", 2, _EXEC), _rule("mmap", 2, _EXEC | _WRITE)]
    families = {_FAMILIES[word] for line in lines(unit, "RestrictAddressFamilies") for word in line.split()}
    others = [family for family in range(46) if family not in families]
    denied += [(_EPERM, "socket", [_Comparison(0, _EQUAL, family, 0)]) for family in others]
    if lines(unit, "MemoryDenyWriteExecute") != ["yes"]:
        denied = denied[3:]
    load(_ALLOW, denied)
    load(_EPERM, [(_ALLOW, name, []) for name in calls(unit)])


def _rule(name: str, argument: int, bits: int) -> tuple[int, str, list[_Comparison]]:
    return _EPERM, name, [_Comparison(argument, _MASKED_EQUAL, bits, bits)]


def main(unit: Path, user: int, command: list[str]) -> None:
    """Replace this process with the confined command. The caller provides a private mount namespace."""
    os.umask(int(lines(unit, "UMask")[0], 8))
    most = int(lines(unit, "LimitNOFILE")[0])
    allowed = min(most, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
    _mount(unit)
    os.chdir(lines(unit, "WorkingDirectory")[0])
    library = ctypes.CDLL(None)
    assert lines(unit, "CapabilityBoundingSet") == [""]
    for capability in range(_LAST_CAPABILITY):
        library.prctl(_BOUNDING_DROP, capability, 0, 0, 0)
    os.setgroups([])
    os.setresgid(user, user, user)
    # Only root may load a filter without no_new_privs, and this process gives up root first.
    assert library.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    os.setresuid(user, user, user)
    _filter(unit)
    os.execv(command[0], command)  # noqa: S606  # replaces this process


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[4:])
