"""The gateway gives up the data: from here on the kernel refuses it every file of a dataset.

Linux only, by *Landlock*, without any right, and it cannot be undone. Landlock allows and does not forbid,
so what is allowed is everything beside the data: on the way from the root to each data file, all that
stands there except the next step. A file that is made later in a folder on that way is refused, too;
``writable`` names folders that stay open.

*Leaks*: where the data are in a folder of the ledger, or the system has no Landlock, nothing is enforced
here, and the gateway does not open the data because it does not contain the code to. Who wants more runs
the worker as another user, to whom the data belong.

*Reference*: landlock(7).
"""

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

__all__ = ["refuse_files"]

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_NO_NEW_PRIVILEGES = 38
_READ_FILE = 1 << 2


def refuse_files(data: Iterable[Path], *, writable: Iterable[Path]) -> bool:
    """Refuse this process, its threads and its children to read these files. Whether the kernel does it."""
    hidden, open_folders = {path.resolve() for path in data}, {folder.resolve() for folder in writable}
    if not hidden:
        return True
    if any(path.is_relative_to(folder) for path in hidden for folder in open_folders):
        return False  # what is allowed below a folder is allowed for all of it
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1)) < 1:
        return False
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    attributes = ctypes.create_string_buffer(struct.pack("<Q", _READ_FILE), 8)
    rules = libc.syscall(_CREATE, attributes, ctypes.c_size_t(8), ctypes.c_uint32(0))
    if rules < 0:
        return False
    try:
        for path in list_beside(hidden) | open_folders:
            _allow(libc, rules, path)
        return bool(libc.syscall(_RESTRICT, rules, ctypes.c_uint32(0)) == 0)
    finally:
        os.close(rules)


def list_beside(hidden: set[Path]) -> set[Path]:
    """All that may be read: whatever stands beside a step on the way to a hidden file."""
    steps = {step for path in hidden for step in (path, *path.parents)}
    return {
        beside
        for folder in {step.parent for step in steps}
        if folder.is_dir()
        for beside in folder.iterdir()
        if beside not in steps and not beside.is_symlink()  # what it leads to stands somewhere, too
    }


def _allow(libc: ctypes.CDLL, rules: int, path: Path) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # it has gone, or nobody may open it: then there is nothing to allow
        return
    try:
        rule = ctypes.create_string_buffer(struct.pack("<Qi", _READ_FILE, opened), 12)
        libc.syscall(_ADD, rules, 1, rule, ctypes.c_uint32(0))
    finally:
        os.close(opened)
