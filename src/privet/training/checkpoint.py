"""A run on disk: what it has spent before it spends it, and where it stands, so that no crash makes a ledger too small.

A folder holds three files. ``spent.json`` is the journal: how many steps may have been used at most, and which stretches
were lost. It is on the disk before the noisy gradient of a step is used. ``state.pt`` is the last state of model,
optimiser and whatever else the loop keeps. ``lock`` keeps a second process out while the first one lives.

*Guarantee*. Steps are reserved in the journal some at a time, before they run, because a journal entry for every
step would cost a disk write each. A run that is killed at any point therefore reports the steps that it used, or
more: those of the reservation that it did not reach. Saving a state gives back what is reserved and not used. On
resuming, the steps between the saved state and the reservation are taken as lost: they ran, perhaps, and will run
again with fresh noise, so they count twice. A state whose journal is missing is refused.

*Never above ε*. A run that lost steps ends early: ``last`` is the last step that ε pays for, with all that was lost, and no step
beyond it is reserved. So it may be killed at any point, any number of times (see ``Executions``). ε is the one that was asked for,
at its δ; without one it is what the plan promises.

*Leaks*: weights before the end of training, and noise that was used if it is correlated, are in ``state.pt``; so the folder is
for its owner only (mode 0700). Files are read with ``weights_only``: a state from elsewhere can be wrong, but
runs no code.
"""

import io
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, final

import torch

from privet.arguments import whole
from privet.caveats import Caveat
from privet.documents import only, opened
from privet.errors import BudgetExceeded, InvalidArgument, MissingPackage, Unreadable
from privet.ledger import Ledger
from privet.training.plan import Plan

__all__ = ["Checkpoint", "Journal"]

_FORMAT, _VERSION = "privet-training", 1
_DELTA = 1e-6
_AHEAD = 32
_JOURNAL, _STATE, _LOCK = "spent.json", "state.pt", "lock"


@final
@dataclass(frozen=True)
class Journal:
    """Up to which step noise may have been used, and which stretches were lost."""

    reserved: int = 0
    abandoned: tuple[tuple[int, int], ...] = ()


Progress = tuple[int, dict[str, Any] | None, Journal, frozenset[Caveat], int]


@final
class Checkpoint:
    """One run's folder, held from ``with`` to its end.

    ``with Checkpoint(folder, plan) as kept:`` reads what is there. ``kept.step`` and ``kept.state`` are where to go on; a
    fresh folder has 0 and None; ``kept.last`` is the step to end after. The loop calls ``kept.before(step)`` before it uses the noisy gradient of that step
    (counted from 1), and ``kept.save(step, state)`` after steps that it wants to come back to.

    ``ahead`` is how many steps are reserved at once; left out, a hundredth of the plan's, and at most 32. A kill loses up to that
    many more than ran. ``epsilon`` at ``delta`` is what the run must not exceed; left out, it is the
    plan's own ε at δ = 10⁻⁶. All plans but those of banded noise in parts then keep the whole curve of the plan, at every δ.

    Of several processes that train together one keeps the folder. The others have ``writes=False``: they count in memory what
    it writes, so that their ledgers are the same, and begin where its ``progress`` is.
    """

    def __init__(
        self,
        folder: str | Path,
        plan: Plan,
        *,
        ahead: int | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        caveats: frozenset[Caveat] = frozenset(),
        writes: bool = True,
    ) -> None:
        self._folder, self._plan, self._caveats, self._writes = Path(folder), plan, caveats, writes
        self._ahead = max(1, min(_AHEAD, plan.steps // 100)) if ahead is None else whole("ahead", ahead)
        if (epsilon is None) != (delta is None):
            raise InvalidArgument(
                f"'epsilon' and 'delta' must be given together, got {epsilon!r} and {delta!r}. Give both or neither."
            )
        self._target = None if epsilon is None or delta is None else (epsilon, delta)
        self.last = plan.steps
        self._journal = Journal()
        self._lock: int | None = None
        self._announced = 0
        self.step = 0
        self.state: dict[str, Any] | None = None

    def __enter__(self) -> "Checkpoint":
        if not self._writes:
            return self
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = _locked(self._folder / _LOCK)
        try:
            self._read()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let others have the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def before(self, step: int) -> None:
        """Make sure that the journal on the disk covers this step. Call it before the step's noise is used."""
        self._held()
        if whole("step", step) != self._announced + 1 or step > self._plan.steps:
            raise InvalidArgument(
                f"'step' must be {self._announced + 1}, the next of the plan's {self._plan.steps}, got {step}. "
                f"Announce every step once, counted from 1."
            )
        if step > self.last:
            raise BudgetExceeded(
                f"Step {step} would bring this run above its ε, because of the steps that crashes lost. "
                f"End the run after step {self.last}."
            )
        if step > self._journal.reserved:
            self._write(replace(self._journal, reserved=min(step + self._ahead - 1, self.last)))
        self._announced = step

    def save(self, step: int, state: Mapping[str, Any]) -> None:
        """Keep the state that this step left, and give back what was reserved beyond it."""
        self._held()
        if whole("step", step, least=0) != self._announced:
            raise InvalidArgument(
                f"'step' must be {self._announced}, the last that was announced, got {step}. "
                f"Save the state that the last step left."
            )
        if self._writes:
            content = io.BytesIO()
            torch.save({"step": step, "plan": _text(self._plan), "state": dict(state)}, content)
            _replace(self._folder / _STATE, content.getbuffer())
        self.step, self.state = step, None
        if self._journal.reserved > step:
            # Only now: a journal that gives steps back beside an older state would take them for not having run.
            self._write(replace(self._journal, reserved=step))

    def ledger(self, steps: int | None = None) -> Ledger:
        """What is spent by all that this folder's journal covers: what was used, or more.

        With ``steps``, what is spent when so many have been taken and nothing more is lost.
        """
        journal = self._journal
        taken = journal.reserved if steps is None else steps
        return self._plan.ledger(taken, abandoned=journal.abandoned, caveats=self._caveats)

    def progress(self) -> Progress:
        """Where the run stands, for processes that do not read the folder."""
        return self.step, self.state, self._journal, self._caveats, self.last

    def follow(self, progress: Progress) -> None:
        """Stand where the process that reads the folder stands."""
        self.step, self.state, self._journal, self._caveats, self.last = progress
        self._announced = self.step

    def _affordable(self) -> int:
        """The last step that ε still pays for, after what was lost by crashes."""
        if not self._journal.abandoned:
            return self._plan.steps
        from privet.accounting import account  # late: it loads scipy

        if self._target is None:
            delta = _DELTA
            epsilon = self._plan.guarantee().epsilon(delta=delta)
        else:
            epsilon, delta = self._target

        def fits(steps: int) -> bool:
            return account(self.ledger(steps)).epsilon(delta=delta) <= epsilon

        low, high = self.step, self._plan.steps
        if fits(high):
            return high
        lost = sum(stop - start for start, stop in self._journal.abandoned)
        if not fits(low):  # a folder that an earlier version wrote: it reserved more than ε pays for
            warnings.warn(
                f"The {lost} steps that crashes lost have brought this run above its ε, so no step is added; "
                f"the ledger says how much it is.",
                stacklevel=4,
            )
            return low
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle) else (low, middle - 1)
        warnings.warn(
            f"Crashes lost up to {lost} steps, which count as spent, so this run ends after step {low} of "
            f"{self._plan.steps}; more would bring it above its ε.",
            stacklevel=4,
        )
        return low

    def _read(self) -> None:
        text = _content(self._folder / _JOURNAL)
        saved = _content(self._folder / _STATE)
        if text is None:
            if saved is not None:
                raise Unreadable(
                    f"{str(self._folder / _JOURNAL)!r} is missing beside a saved state, so what was spent is not known. "
                    f"Put the file back, or start anew in another folder and count the first run in full."
                )
            self._write(self._journal)
            return
        journal = self._opened(text)
        if saved is not None:
            self.step, self.state = self._loaded(saved)
            self._announced = self.step
        if self.step > journal.reserved:
            raise Unreadable(
                f"{str(self._folder / _JOURNAL)!r} must cover the {self.step} steps of the saved state, and covers "
                f"{journal.reserved}. Put back the journal that was written with it."
            )
        if journal.reserved > self.step:
            lost = (*journal.abandoned, (self.step, journal.reserved))
            self._write(Journal(self.step, lost))
        else:
            self._journal = journal
        self.last = self._affordable()

    def _opened(self, text: bytes) -> Journal:
        try:
            document = opened(text.decode(), _FORMAT, _VERSION)
        except UnicodeDecodeError:
            raise Unreadable("The journal must be text, and is not. Restore the file.") from None
        only(document, "A journal", ("format", "version", "plan", "reserved", "abandoned", "ledger"))
        self._same(document.get("plan"))
        try:
            reserved = whole("reserved", document.get("reserved", -1), least=0, most=self._plan.steps)
            lost = tuple(
                (whole("from", start, least=0), whole("to", stop, least=start, most=self._plan.steps))
                for start, stop in document.get("abandoned", [])
            )
            # Noise that was seeded before a crash stays seeded in the ledger, whatever comes after.
            # That it stood before its planned steps was so then, and is said anew by every ledger.
            found = Ledger.from_json(json.dumps(document.get("ledger"))).caveats
            self._caveats |= found - {Caveat.STOPPED_EARLY}
        except (InvalidArgument, TypeError, ValueError):
            raise Unreadable(
                "The journal must hold steps of its plan, and does not. Restore the file."
            ) from None
        return Journal(reserved, lost)

    def _loaded(self, content: bytes) -> tuple[int, dict[str, Any]]:
        try:
            found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
            step, plan, state = found["step"], found["plan"], found["state"]
        except Exception:
            raise Unreadable(
                f"{str(self._folder / _STATE)!r} must be a state that Privet saved, and is not. "
                f"Remove it to begin again; the journal will count the first run as lost."
            ) from None
        self._same(plan)
        if not isinstance(state, dict) or isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise Unreadable("The saved state must have a step and a state. Restore the file.")
        return step, state

    def _same(self, plan: object) -> None:
        if plan != _text(self._plan):
            raise InvalidArgument(
                f"The folder {str(self._folder)!r} belongs to a run with another plan. "
                f"Resume with the plan it began with, or use another folder."
            )

    def _write(self, journal: Journal) -> None:
        ledger = self._plan.ledger(journal.reserved, abandoned=journal.abandoned, caveats=self._caveats)
        document = {
            "format": _FORMAT,
            "version": _VERSION,
            "plan": _text(self._plan),
            "reserved": journal.reserved,
            "abandoned": journal.abandoned,
            "ledger": json.loads(ledger.to_json()),
        }
        if self._writes:
            _replace(self._folder / _JOURNAL, json.dumps(document, indent=2).encode())
        self._journal = journal  # only when the disk has it

    def _held(self) -> None:
        if self._lock is None and self._writes:
            raise InvalidArgument(
                "The checkpoint is not open. Use it inside of 'with Checkpoint(…) as kept:'."
            )


def _text(plan: Plan) -> str:
    """What a folder knows a plan by. Plans of earlier versions had no ``size_is_public``, and their folders go on."""
    return repr(plan).replace(", size_is_public=False", "")


def _locked(path: Path) -> int:
    """A lock that the system drops when the process ends, in whatever way."""
    try:
        import fcntl
    except ImportError as missing:
        raise MissingPackage(
            "Checkpoints need 'fcntl' to keep two processes apart, and this system has none. "
            "Use a POSIX system, such as Linux, macOS or WSL."
        ) from missing
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise InvalidArgument(
            f"{str(path.parent)!r} is in use by another run. Wait for it to end, or use another folder."
        ) from None
    return descriptor


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _replace(path: Path, content: bytes | memoryview) -> None:
    """Old content or new, never half: a file beside it, synced, renamed, and the folder synced."""
    waiting = path.with_name(path.name + ".new")
    descriptor = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    waiting.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
