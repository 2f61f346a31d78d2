"""A run on disk: what it has spent, before it spends it, and its state. No crash makes a ledger too small.

A folder has three files. ``spent.json`` is the journal: the number of steps that may have been used, and the
ranges of steps that were lost. It is on disk before the noisy gradient of a step is used. ``state.pt`` is the
last state of model, optimiser and everything else that the loop needs. ``lock`` keeps a second process out
while the first one runs.

*Guarantee*. The journal reserves several steps at a time, before they run, because an entry for every step
would cost a disk write each. So a run that is killed at any point reports the steps that it used, or more:
the reserved steps that it did not reach. Saving a state releases the steps that are reserved and not used.
When a run resumes, the steps between the saved state and the reservation are taken as lost: perhaps they ran,
and they will run again with fresh noise, so they count twice. A state without its journal is refused.

*Lineage*. Journal and state have the random number of their run, and a state says how many ranges were lost
before it. So a journal of another run, or one that is older than its state, is refused. A folder that was
restored as a whole from a backup is not detected: nothing in it is newer than the rest. Nor is a copy of the
folder that continues elsewhere. What these spent must be added.

*Two processes*. The lock keeps them apart. If somebody removed the lock file, the journal does: only the
process that wrote it last may replace it. Otherwise the run ends with ``ChangedMeanwhile``.

*Never above ε*. A run that lost steps ends early: ``final_step`` is the last step that ε pays for, with
everything that was lost, and no step beyond it is reserved. So the run may be killed at any point, any number
of times (see ``Executions``). ε is the one that was asked for, at its δ. By default it is the ε of the plan.

*Leaks*: ``state.pt`` has the weights before the end of training, and the noise that was used, if it is
correlated. So only the owner can read the folder (mode 0700). Files are read with ``weights_only``: a state
from elsewhere can be wrong, but runs no code.
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

from privet.accounting import account
from privet.arguments import whole
from privet.callers import level_of_caller
from privet.caveats import Caveat
from privet.documents import only, open_document
from privet.durable_files import (
    ChangedMeanwhile,
    is_locked_by,
    lock_file,
    read_whole,
    replace_durably,
    unlock,
)
from privet.errors import BudgetExceeded, InvalidArgument, NotProved, Unreadable
from privet.ledger import Ledger
from privet.training.loop.plan_documents import (
    differing_fields,
    plan_from_plain,
    plan_to_plain,
    repr_of_0_1_0,
)
from privet.training.loop.resumable_plan import ResumablePlan
from privet.training.plan import TrainingPlan

__all__ = ["Checkpoint", "Journal"]

_FORMAT, _VERSION = "privet-training", 2
_STATE_FORMAT = "privet-training-state"
_WITH_REPR = 1  # the version of documents of 0.1.0, which had repr(plan) in place of a plan
_DELTA = 1e-6
_AHEAD = 32
_JOURNAL, _STATE, _LOCK = "spent.json", "state.pt", "lock"
_OWNER = 0o600


@final
@dataclass(frozen=True)
class Journal:
    """Up to which step noise may have been used, and which ranges of steps were lost."""

    reserved: int = 0
    abandoned: tuple[tuple[int, int], ...] = ()


Progress = tuple[int, dict[str, Any] | None, Journal, frozenset[Caveat], int]


@final
class Checkpoint:
    """The folder of one run, which is locked inside of a ``with`` block.

    ``with Checkpoint(folder, plan) as checkpoint:`` reads the folder. ``checkpoint.step`` and
    ``checkpoint.state`` are where to resume: 0 and None in a new folder. ``checkpoint.final_step`` is the
    last step to take. The loop calls ``checkpoint.reserve(step)`` before it uses the noisy gradient of that
    step (counted from 1), and ``checkpoint.save(step, state)`` after steps from which it can resume.

    Args:
        folder: a folder for this run only.
        plan: the plan of the run, of this package or of another that takes rounds.
        ahead: how many steps to reserve at once. The default is one hundredth of the plan's steps, at most
            32. A kill loses up to this number of steps more than ran.
        epsilon: what the run must not exceed at ``delta``. The default is the plan's own ε at δ = 10⁻⁶. Then
            every plan, except for banded noise with cyclic Poisson sampling, keeps the whole curve of the
            plan, at every δ.
        delta: the δ of ``epsilon``.
        caveats: the caveats of the noise.
        writes: whether this process writes the folder. Of several processes in one run only the leader does.
            The others count in memory what it writes, so that their ledgers are the same, and start from its
            ``progress``.
    """

    def __init__(
        self,
        folder: str | Path,
        plan: TrainingPlan | ResumablePlan,
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
                f"'epsilon' and 'delta' must be given together, got {epsilon!r} and {delta!r}. Give both or "
                "neither."
            )
        self._target = None if epsilon is None or delta is None else (epsilon, delta)
        self.final_step = plan.steps
        self._journal = Journal()
        self._run: str | None = None
        self._written: bytes | None = None
        self._lock: int | None = None
        self._last_reserved = 0
        self.step = 0
        self.state: dict[str, Any] | None = None

    def __enter__(self) -> "Checkpoint":
        if not self._writes:
            return self
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = lock_file(self._folder / _LOCK, wait=False)
        if self._lock is None:
            raise InvalidArgument(
                f"{str(self._folder)!r} is in use by another run. Wait until that run ends, or use another "
                "folder."
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
        """Unlock the folder."""
        if self._lock is not None:
            unlock(self._lock)
            self._lock = None

    def reserve(self, step: int) -> None:
        """Make sure that the journal on disk covers this step. Call it before the step uses its noise."""
        self._require_open()
        if whole("step", step) != self._last_reserved + 1 or step > self._plan.steps:
            raise InvalidArgument(
                f"'step' must be {self._last_reserved + 1}, the next of the plan's {self._plan.steps}, got "
                f"{step}. Reserve every step once, counted from 1."
            )
        if step > self.final_step:
            raise BudgetExceeded(
                f"Step {step} would bring this run above its ε, because of the steps that crashes lost. "
                f"End the run after step {self.final_step}."
            )
        if step > self._journal.reserved:
            self._write(replace(self._journal, reserved=min(step + self._ahead - 1, self.final_step)))
        self._last_reserved = step

    def save(self, step: int, state: Mapping[str, Any]) -> None:
        """Save the state after this step, and release the steps that are reserved beyond it."""
        self._require_open()
        if whole("step", step, least=0) != self._last_reserved:
            raise InvalidArgument(
                f"'step' must be {self._last_reserved}, the last that was reserved, got {step}. "
                f"Save the state after the last step."
            )
        if self._writes:
            content = io.BytesIO()
            document = {
                "format": _STATE_FORMAT,
                "version": _VERSION,
                "run": self._run,
                "abandoned": len(self._journal.abandoned),
                "step": step,
                "plan": json.dumps(self._plan_as_plain()),
                "state": dict(state),
            }
            torch.save(document, content)
            if self._lock is None or not is_locked_by(self._folder / _LOCK, self._lock):
                raise ChangedMeanwhile(
                    f"{str(self._folder / _LOCK)!r} must stay while a run is active, and was removed or "
                    "replaced. The state was not written. End all runs in this folder, and resume one."
                )
            replace_durably(self._folder / _STATE, content.getbuffer(), mode=_OWNER)
        self.step, self.state = step, None
        if self._journal.reserved > step:
            # Only now: a journal that releases steps next to an older state would treat them as not run.
            self._write(replace(self._journal, reserved=step))

    def ledger(self, steps: int | None = None) -> Ledger:
        """The ledger of everything that the journal covers: what was used, or more.

        With ``steps``, the ledger after this number of steps, if nothing more is lost.
        """
        journal = self._journal
        ledger = self._ledger_of(journal, journal.reserved if steps is None else steps)
        if ledger is None:
            raise NotProved(
                "The plan of this run adds no noise, so it has no ledger. Choose a plan with noise."
            )
        return ledger

    def progress(self) -> Progress:
        """The progress of the run, for processes that do not read the folder."""
        return self.step, self.state, self._journal, self._caveats, self.final_step

    def follow(self, progress: Progress) -> None:
        """Take over the progress of the process that reads the folder."""
        self.step, self.state, self._journal, self._caveats, self.final_step = progress
        self._last_reserved = self.step

    def _find_final_step(self) -> int:
        """The last step that ε pays for, after what crashes lost."""
        whole_run = self._plan.ledger(self._plan.steps)
        if not self._journal.abandoned or whole_run is None:
            return self._plan.steps
        if self._target is None:
            delta = _DELTA
            epsilon = account(whole_run).epsilon(delta=delta)
        else:
            epsilon, delta = self._target

        def fits(steps: int) -> bool:
            return account(self.ledger(steps)).epsilon(delta=delta) <= epsilon

        low, high = self.step, self._plan.steps
        if fits(high):
            return high
        lost = sum(stop - start for start, stop in self._journal.abandoned)
        if not fits(low):  # an earlier version wrote the folder, and reserved more than ε pays for
            warnings.warn(
                f"The {lost} steps that crashes lost have brought this run above its ε, so it takes no "
                "further step. The ledger has the actual ε.",
                stacklevel=level_of_caller(),
            )
            return low
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle) else (low, middle - 1)
        warnings.warn(
            f"Crashes lost up to {lost} steps, which count as spent, so this run ends after step {low} of "
            f"{self._plan.steps}. More steps would bring it above its ε.",
            stacklevel=level_of_caller(),
        )
        return low

    def _read(self) -> None:
        text = read_whole(self._folder / _JOURNAL)
        saved = read_whole(self._folder / _STATE)
        if text is None:
            if saved is not None:
                raise Unreadable(
                    f"{str(self._folder / _JOURNAL)!r} is missing next to a saved state, so what was spent "
                    "is unknown. Restore the file, or start again in another folder and count the first run "
                    "in full."
                )
            self._run = secrets.token_hex(16)
            self._write(self._journal)
            return
        self._written = text
        self._journal = journal = self._parse_journal(text)
        if saved is not None:
            self.step, self.state = self._parse_state(saved, journal)
            self._last_reserved = self.step
        if self.step > journal.reserved:
            raise Unreadable(
                f"{str(self._folder / _JOURNAL)!r} must cover the {self.step} steps of the saved state, and "
                f"covers {journal.reserved}. Restore the journal that was written with it."
            )
        if journal.reserved > self.step:
            journal = Journal(self.step, (*journal.abandoned, (self.step, journal.reserved)))
        if journal != self._journal or self._run is None:
            self._run = self._run or secrets.token_hex(16)  # 0.1.0 had none
            self._write(journal)
        self.final_step = self._find_final_step()

    def _parse_journal(self, text: bytes) -> Journal:
        try:
            document = open_document(text.decode(), _FORMAT, _VERSION, _WITH_REPR)
        except UnicodeDecodeError:
            raise Unreadable("The journal must be text, and is not. Restore the file.") from None
        known = ("format", "version", "plan", "reserved", "abandoned", "ledger")
        if document["version"] == _WITH_REPR:
            only(document, "A journal", known)
        else:
            only(document, "A journal", (*known, "run"))
            self._run = _require_run(document.get("run"))
        self._check_same(document.get("plan"), has_repr=document["version"] == _WITH_REPR)
        try:
            reserved = whole("reserved", document.get("reserved", -1), least=0, most=self._plan.steps)
            lost = tuple(
                (whole("from", start, least=0), whole("to", stop, least=start, most=self._plan.steps))
                for start, stop in document.get("abandoned", [])
            )
            # Noise that was seeded before a crash stays seeded in the ledger, whatever comes after.
            # Every ledger decides again whether the run was stopped early.
            if document.get("ledger") is not None:
                saved = Ledger.from_json(json.dumps(document["ledger"])).caveats
                self._caveats |= saved - {Caveat.STOPPED_EARLY}
        except (InvalidArgument, TypeError, ValueError):
            raise Unreadable(
                "The journal must hold steps of its plan, and does not. Restore the file."
            ) from None
        return Journal(reserved, lost)

    def _parse_state(self, content: bytes, journal: Journal) -> tuple[int, dict[str, Any]]:
        try:
            document = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
            has_repr = "format" not in document
            if not has_repr and (document["format"], document["version"]) != (_STATE_FORMAT, _VERSION):
                raise ValueError
            step, state, lost = document["step"], document["state"], document.get("abandoned", 0)
            plan = document["plan"] if has_repr else json.loads(document["plan"])
        except Exception:
            raise Unreadable(
                f"{str(self._folder / _STATE)!r} must be a state that Privet saved, and is not. "
                f"Remove it to begin again; the journal will count the first run as lost."
            ) from None
        self._check_same(plan, has_repr=has_repr)
        if not isinstance(state, dict) or isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise Unreadable("The saved state must have a step and a state. Restore the file.")
        if not has_repr and (document.get("run") != self._run or lost > len(journal.abandoned)):
            raise Unreadable(
                f"{str(self._folder / _JOURNAL)!r} must be of the same run as the saved state, and not "
                "older. It is not, so what was spent is unknown. Restore the journal that was written with "
                "it."
            )
        return step, state

    def _check_same(self, plan: object, *, has_repr: bool) -> None:
        if not isinstance(self._plan, TrainingPlan):
            fields = self._plan.find_differences(plan)
            if not fields:
                return
            differs = f" (it differs in {', '.join(fields)})"
        elif has_repr:
            if plan == repr_of_0_1_0(self._plan):
                return
            differs = ""
        else:
            saved = plan_from_plain(plan)
            if saved == self._plan:
                return
            differs = f" (it differs in {', '.join(differing_fields(saved, self._plan))})"
        raise InvalidArgument(
            f"The folder {str(self._folder)!r} belongs to a run with another plan{differs}. "
            f"Resume with the plan of that run, or use another folder."
        )

    def _write(self, journal: Journal) -> None:
        ledger = self._ledger_of(journal, journal.reserved)
        document = {
            "format": _FORMAT,
            "version": _VERSION,
            "run": self._run,
            "plan": self._plan_as_plain(),
            "reserved": journal.reserved,
            "abandoned": journal.abandoned,
            "ledger": None if ledger is None else json.loads(ledger.to_json()),
        }
        if self._writes:
            content = json.dumps(document, indent=2).encode()
            replace_durably(self._folder / _JOURNAL, content, expected=self._written, mode=_OWNER)
            self._written = content
        self._journal = journal  # only after it is on disk

    def _ledger_of(self, journal: Journal, steps: int) -> Ledger | None:
        return self._plan.ledger(steps, abandoned=journal.abandoned, caveats=self._caveats)

    def _plan_as_plain(self) -> dict[str, Any]:
        return plan_to_plain(self._plan) if isinstance(self._plan, TrainingPlan) else self._plan.to_plain()

    def _require_open(self) -> None:
        if self._lock is None and self._writes:
            raise InvalidArgument(
                "The checkpoint is not open. Use it inside of 'with Checkpoint(…) as checkpoint:'."
            )


def _require_run(run: object) -> str:
    if not isinstance(run, str) or not run:
        raise Unreadable("The journal must have the number of its run, and has not. Restore the file.")
    return run
