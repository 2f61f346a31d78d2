"""Power cuts: what a disk may hold when the caches of the system are lost, which no kill shows.

A model of POSIX: content is on the disk at ``fsync`` of its file, names are on the disk at ``fsync`` of their folder. Until then
each change of a name may be there or not, whatever became of the others; and a file that was written and not flushed may hold the
old content, half of the new one, or all. Every such disk after every call is built as a folder and opened.
"""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

from calls import watched
from scenarios import Found, Scenario


@final
class Disk:
    """One folder as the system sees it, and as it may be found after a power cut."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, int] = {}
        self._kept_names: dict[str, int] = {}
        self._pending: list[tuple[str, ...]] = []
        self._inode_of_pending: list[int] = []
        self._content: dict[int, bytes] = {}
        self._kept: dict[int, bytes] = {}
        self._open: dict[int, int | None] = {}  # by descriptor; None is the folder itself
        self.told: list[str] = []
        self.states: dict[tuple[Any, ...], tuple[dict[str, bytes], tuple[str, ...]]] = {}

    def strike(self, number: int, name: str, real: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        """Do the call, note what it changed, and what a cut after it may leave."""
        del number
        found = real()
        if name == "open":
            self._opened(Path(arguments[0]), found)
        elif name == "close":
            self._open.pop(arguments[0], None)
        elif name == "write" and self._open.get(arguments[0]) is not None:
            inode = self._open[arguments[0]]
            assert inode is not None
            self._content[inode] += bytes(arguments[1])[:found]
        elif name == "fsync" and arguments[0] in self._open:
            self._flushed(self._open[arguments[0]])
        elif name == "replace":
            self._renamed(Path(arguments[0]), Path(arguments[1]))
        elif name == "unlink" and self._names.pop(Path(arguments[0]).name, None) is not None:
            self._change(("unlink", Path(arguments[0]).name), -1)
        self._cut()
        return found

    def _opened(self, path: Path, descriptor: int) -> None:
        if path == self._folder:
            self._open[descriptor] = None
        elif path.parent == self._folder:
            if path.name not in self._names:
                inode = len(self._content)
                self._content[inode] = self._kept[inode] = b""
                self._names[path.name] = inode
                self._change(("link", path.name), inode)
            self._open[descriptor] = self._names[path.name]

    def _flushed(self, inode: int | None) -> None:
        if inode is None:
            self._kept_names, self._pending, self._inode_of_pending = dict(self._names), [], []
        else:
            self._kept[inode] = self._content[inode]

    def _renamed(self, source: Path, target: Path) -> None:
        inode = self._names.pop(source.name)
        self._names[target.name] = inode
        self._change(("rename", source.name, target.name), inode)

    def _change(self, change: tuple[str, ...], inode: int) -> None:
        self._pending.append(change)
        self._inode_of_pending.append(inode)

    def _cut(self) -> None:
        changes = list(zip(self._pending, self._inode_of_pending, strict=True))
        for chosen in itertools.product((False, True), repeat=len(changes)):
            names = dict(self._kept_names)
            for (change, inode), happened in zip(changes, chosen, strict=True):
                if not happened:
                    continue
                if change[0] == "unlink":
                    names.pop(change[1], None)
                else:
                    if change[0] == "rename":
                        names.pop(change[1], None)
                    names[change[-1]] = inode
            choices = [sorted(self._contents(inode)) for inode in names.values()]
            for contents in itertools.product(*choices):
                files = dict(zip(names, contents, strict=True))
                key = (tuple(sorted(files.items())), tuple(self.told))
                self.states.setdefault(key, (files, tuple(self.told)))

    def _contents(self, inode: int) -> set[bytes]:
        kept, cached = self._kept[inode], self._content[inode]
        if kept == cached:
            return {kept}
        half = len(kept) + (len(cached) - len(kept)) // 2
        return {kept, cached[:half], cached}


def cut_everywhere(scenario: Scenario, root: Path, pieces: int) -> tuple[int, Found]:
    """All disks that power cuts may leave during some pieces of work; how many there are, and what is wrong with them."""
    folder, after = root / "kept", root / "after"
    folder.mkdir()
    disk = Disk(folder)
    with watched(disk.strike):
        for _ in range(pieces):
            scenario.work(folder, disk.told.append)
    found = Found()
    for files, told in disk.states.values():
        after.mkdir()
        for name, content in files.items():
            (after / name).write_bytes(content)
        found.add(scenario.check(after, list(told)))
        again: list[str] = []
        try:
            scenario.work(after, again.append)
        except Exception:  # whatever keeps the work from going on
            found.broken += 1
        found.add(scenario.check(after, [*told, *again]))
        shutil.rmtree(after)
    return len(disk.states), found
