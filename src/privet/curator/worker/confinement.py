"""What the worker's process can no longer do: open a network, write a file, be read by others.

Linux only, and without any right: *seccomp* refuses every socket that is not local to the machine, *Landlock*
refuses every write outside of one temporary folder, and the process is marked as not dumpable, so that no
core file and no debugger of the same user reads its memory. All three cannot be undone, hold for all threads,
and are passed to children.

*Leaks*: a worker that reads a PostgreSQL server over TCP, or a Spark cluster, keeps its network. On a system
without seccomp or Landlock nothing is enforced. ``Confinement`` says what holds; it is shown to the steward.

*Reference*: seccomp(2), landlock(7), prctl(2); the numbers are those of the kernel's headers.
"""

import ctypes
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

__all__ = ["Confinement", "confine"]

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_SECCOMP_SET_FILTER, _SECCOMP_ALL_THREADS = 1, 1
_AF_UNIX = 1
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | 1, 0x80000000  # 1 is EPERM
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_WRITES_BY_VERSION = (  # of Landlock: what may be refused
    0b1111111110010,  # write file, remove, make: bits 1 and 4 to 12
    1 << 13,  # refer
    1 << 14,  # truncate
)
_X32 = 0x40000000


@final
@dataclass(frozen=True)
class _Machine:
    """Numbers of a kind of processor: its mark, and of the calls socket, seccomp, and those that are
    refused."""

    mark: int
    socket: int
    seccomp: int
    refused: tuple[int, ...]


# Refused: ptrace, process_vm_readv, process_vm_writev, io_uring_setup (which opens sockets by itself).
_MACHINES = {
    "x86_64": _Machine(0xC000003E, 41, 317, (101, 310, 311, 425)),
    "aarch64": _Machine(0xC00000B7, 198, 277, (117, 270, 271, 425)),
}


@final
@dataclass(frozen=True)
class Confinement:
    """What is enforced by the kernel for a worker."""

    network_closed: bool
    writes_refused: bool
    memory_hidden: bool

    def to_plain(self) -> dict[str, bool]:
        """As JSON."""
        return {
            "network_closed": self.network_closed,
            "writes_refused": self.writes_refused,
            "memory_hidden": self.memory_hidden,
        }


def confine(*, network: bool, writable: Iterable[Path] = ()) -> Confinement:
    """Give up what an answer does not need. ``network`` keeps it; ``writable`` are folders for temporary
    files.
    """
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    machine = _MACHINES.get(platform.machine())
    if not sys.platform.startswith("linux") or machine is None or sys.byteorder != "little":
        return Confinement(False, False, False)
    libc = ctypes.CDLL(None, use_errno=True)
    hidden = libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return Confinement(False, False, hidden)
    refused = _refuse_writes(libc, tuple(writable))
    closed = False if network else _close_network(libc, machine)
    return Confinement(closed, refused, hidden)


def _close_network(libc: Any, machine: _Machine) -> bool:  # noqa: ANN401 - ctypes
    """A filter of system calls for all threads. Memory of the program must outlive the call only."""
    rules = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, machine.mark), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    rules += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _REFUSE)]
    for call in machine.refused:
        rules += [(_EQUAL, 0, 1, call), (_RETURN, 0, 0, _REFUSE)]
    rules += [(_EQUAL, 1, 0, machine.socket), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, 16)]
    rules += [(_EQUAL, 0, 1, _AF_UNIX), (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *rule) for rule in rules))
    header = ctypes.create_string_buffer(struct.pack("<H6xQ", len(rules), ctypes.addressof(program)), 16)
    done = libc.syscall(machine.seccomp, _SECCOMP_SET_FILTER, _SECCOMP_ALL_THREADS, header)
    return bool(done == 0)


def _refuse_writes(libc: Any, writable: tuple[Path, ...]) -> bool:  # noqa: ANN401
    """A rule of Landlock: no write, but below some folders. It holds for this thread and those that it
    starts.
    """
    version = libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return False
    handled = 0
    for rights in _WRITES_BY_VERSION[:version]:
        handled |= rights
    attributes = ctypes.create_string_buffer(struct.pack("<Q", handled), 8)
    rules = libc.syscall(_LANDLOCK_CREATE, attributes, ctypes.c_size_t(8), ctypes.c_uint32(0))
    if rules < 0:
        return False
    try:
        for folder in writable:
            opened = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            try:
                rule = ctypes.create_string_buffer(struct.pack("<Qi", handled, opened), 12)
                if libc.syscall(_LANDLOCK_ADD, rules, 1, rule, ctypes.c_uint32(0)) != 0:
                    return False
            finally:
                os.close(opened)
        return bool(libc.syscall(_LANDLOCK_RESTRICT, rules, ctypes.c_uint32(0)) == 0)
    finally:
        os.close(rules)
