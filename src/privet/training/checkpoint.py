"""A run on disk: what it has spent before it spends it, and where it stands, so that no crash makes a ledger too small.

A folder holds three files. ``spent.json`` is the journal: how many steps may have been used at most, and which stretches
were lost. It is on the disk before the noisy gradient of a step is used. ``state.pt`` is the last state of model,
optimiser and whatever else the loop keeps. ``lock`` keeps a second process out while the first one lives.

*Guarantee*. Steps are reserved in the journal some at a time, before they run, because a journal entry for every
step would cost a disk write each. A run that is killed at any point therefore reports the steps that it used, or
more: those of the reservation that it did not reach. Saving a state gives back what is reserved and not used. On
resuming, the steps between the saved state and the reservation are taken as lost: they ran, perhaps, and will run
again with fresh noise, so they count twice. A state whose journal is missing is refused.

*Lineage*. Journal and state have the random number of their run, and a state says which stretches were lost before it. So a journal of
another run, or one that is older than its state, is refused. A folder that was put back as a whole from a backup is not
noticed: nothing in it is newer than the rest. Nor is a copy of it that goes on elsewhere. What these spent must be added.

*Two processes*. The lock keeps them apart. Where somebody removed its file, the journal does: it is replaced only by whom it was last
written by, and otherwise the run ends with ``ChangedMeanwhile``.

*Never above ε*. A run that lost steps ends early: ``last`` is the last step that ε pays for, with all that was lost, and no step
beyond it is reserved. So it may be killed at any point, any number of times (see ``Executions``). ε is the one that was asked for,
at its δ; without one it is what the plan promises.

*Leaks*: weights before the end of training, and noise that was used if it is correlated, are in ``state.pt``; so the folder is
for its owner only (mode 0700). Files are read with ``weights_only``: a state from elsewhere can be wrong, but
runs no code.
"""

import io
import json
import secrets
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, final

import torch

from privet.arguments import whole
from privet.callers import level_of_caller
from privet.caveats import Caveat
from privet.documents import only, opened
from privet.durable_files import (
    ChangedMeanwhile,
    is_locked_by,
    lock_file,
    read_whole,
    replace_durably,
    unlock,
)
from privet.errors import BudgetExceeded, InvalidArgument, Unreadable
from privet.ledger import Ledger
from privet.training.plan import Plan
from privet.training.plan_documents import differing_fields, plan_from_plain, plan_to_plain, repr_of_0_1_0

__all__ = ["Checkpoint", "Journal"]

_FORMAT, _VERSION = "privet-training", 2
_STATE_FORMAT = "privet-training-state"
_WITH_REPR = 1  # documents of 0.1.0, which had repr(plan) in place of a plan
_DELTA = 1e-6
_AHEAD = 32
_JOURNAL, _STATE, _LOCK = "spent.json", "state.pt", "lock"
_OWNER = 0o600


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
        self._run: str | None = None
        self._written: bytes | None = None
        self._lock: int | None = None
        self._announced = 0
        self.step = 0
        self.state: dict[str, Any] | None = None

    def __enter__(self) -> "Checkpoint":
        if not self._writes:
            return self
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = lock_file(self._folder / _LOCK, wait=False)
        if self._lock is None:
            raise InvalidArgument(
                f"{str(self._folder)!r} is in use by another run. Wait for it to end, or use another folder."
            )
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
            unlock(self._lock)
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
            found = {
                "format": _STATE_FORMAT,
                "version": _VERSION,
                "run": self._run,
                "abandoned": len(self._journal.abandoned),
                "step": step,
                "plan": json.dumps(plan_to_plain(self._plan)),
                "state": dict(state),
            }
            torch.save(found, content)
            if self._lock is None or not is_locked_by(self._folder / _LOCK, self._lock):
                raise ChangedMeanwhile(
                    f"{str(self._folder / _LOCK)!r} must stay while a run goes on, and was removed or replaced. "
                    f"The state was not written; end all runs in this folder, and resume one."
                )
            replace_durably(self._folder / _STATE, content.getbuffer(), mode=_OWNER)
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
                stacklevel=level_of_caller(),
            )
            return low
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle) else (low, middle - 1)
        warnings.warn(
            f"Crashes lost up to {lost} steps, which count as spent, so this run ends after step {low} of "
            f"{self._plan.steps}; more would bring it above its ε.",
            stacklevel=level_of_caller(),
        )
        return low

    def _read(self) -> None:
        text = read_whole(self._folder / _JOURNAL)
        saved = read_whole(self._folder / _STATE)
        if text is None:
            if saved is not None:
                raise Unreadable(
                    f"{str(self._folder / _JOURNAL)!r} is missing beside a saved state, so what was spent is not known. "
                    f"Put the file back, or start anew in another folder and count the first run in full."
                )
            self._run = secrets.token_hex(16)
            self._write(self._journal)
            return
        self._written = text
        self._journal = journal = self._opened(text)
        if saved is not None:
            self.step, self.state = self._loaded(saved, journal)
            self._announced = self.step
        if self.step > journal.reserved:
            raise Unreadable(
                f"{str(self._folder / _JOURNAL)!r} must cover the {self.step} steps of the saved state, and covers "
                f"{journal.reserved}. Put back the journal that was written with it."
            )
        if journal.reserved > self.step:
            journal = Journal(self.step, (*journal.abandoned, (self.step, journal.reserved)))
        if journal != self._journal or self._run is None:
            self._run = self._run or secrets.token_hex(16)  # 0.1.0 gave none
            self._write(journal)
        self.last = self._affordable()

    def _opened(self, text: bytes) -> Journal:
        try:
            document = opened(text.decode(), _FORMAT, _VERSION, _WITH_REPR)
        except UnicodeDecodeError:
            raise Unreadable("The journal must be text, and is not. Restore the file.") from None
        known = ("format", "version", "plan", "reserved", "abandoned", "ledger")
        if document["version"] == _WITH_REPR:
            only(document, "A journal", known)
        else:
            only(document, "A journal", (*known, "run"))
            self._run = _checked_run(document.get("run"))
        self._check_same(document.get("plan"), has_repr=document["version"] == _WITH_REPR)
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

    def _loaded(self, content: bytes, journal: Journal) -> tuple[int, dict[str, Any]]:
        try:
            found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
            has_repr = "format" not in found
            if not has_repr and (found["format"], found["version"]) != (_STATE_FORMAT, _VERSION):
                raise ValueError
            step, state, lost = found["step"], found["state"], found.get("abandoned", 0)
            plan = found["plan"] if has_repr else json.loads(found["plan"])
        except Exception:
            raise Unreadable(
                f"{str(self._folder / _STATE)!r} must be a state that Privet saved, and is not. "
                f"Remove it to begin again; the journal will count the first run as lost."
            ) from None
        self._check_same(plan, has_repr=has_repr)
        if not isinstance(state, dict) or isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise Unreadable("The saved state must have a step and a state. Restore the file.")
        if not has_repr and (found.get("run") != self._run or lost > len(journal.abandoned)):
            raise Unreadable(
                f"{str(self._folder / _JOURNAL)!r} must be of the same run as the saved state and no older, and is not, so what "
                f"was spent is not known. Put back the journal that was written with it."
            )
        return step, state

    def _check_same(self, plan: object, *, has_repr: bool) -> None:
        if has_repr:
            if plan == repr_of_0_1_0(self._plan):
                return
            differs = ""
        else:
            found = plan_from_plain(plan)
            if found == self._plan:
                return
            differs = f" (it differs in {', '.join(differing_fields(found, self._plan))})"
        raise InvalidArgument(
            f"The folder {str(self._folder)!r} belongs to a run with another plan{differs}. "
            f"Resume with the plan it began with, or use another folder."
        )

    def _write(self, journal: Journal) -> None:
        ledger = self._plan.ledger(journal.reserved, abandoned=journal.abandoned, caveats=self._caveats)
        document = {
            "format": _FORMAT,
            "version": _VERSION,
            "run": self._run,
            "plan": plan_to_plain(self._plan),
            "reserved": journal.reserved,
            "abandoned": journal.abandoned,
            "ledger": json.loads(ledger.to_json()),
        }
        if self._writes:
            content = json.dumps(document, indent=2).encode()
            replace_durably(self._folder / _JOURNAL, content, expected=self._written, mode=_OWNER)
            self._written = content
        self._journal = journal  # only when the disk has it

    def _held(self) -> None:
        if self._lock is None and self._writes:
            raise InvalidArgument(
                "The checkpoint is not open. Use it inside of 'with Checkpoint(…) as kept:'."
            )


def _checked_run(found: object) -> str:
    if not isinstance(found, str) or not found:
        raise Unreadable("The journal must have the number of its run, and has not. Restore the file.")
    return found
