"""What is put to the test: ledgers, training and the cache of shadow models. Each does a piece of work and tells what was seen of it."""

import json
import os
import secrets
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import final

import numpy as np

from privet.accounting import account
from privet.adjacency import AddRemove
from privet.attacks.shadows.cache import Cache
from privet.attacks.shadows.engine import Job, ModelSignals
from privet.attacks.shadows.recipe import CallableRecipe
from privet.errors import BudgetExceeded, PrivetError
from privet.events import DiscreteLaplace, Event, Repeat
from privet.ledger import Entry, Ledger
from privet.releasing import Answer, Budget, ErrorKind, PrivacyCost, filter_state
from privet.releasing.durable import DurableLedger, stored_ledger
from privet.training import plan as training_plan
from privet.training.loop import checkpoint as training_checkpoint
from privet.training.loop.checkpoint import Checkpoint
from privet.training.plan import TrainingPlan
from privet.training.sampling.schemes import PoissonSampling

Tell = Callable[[str], None]


@final
@dataclass
class Found:
    """What went wrong. ``broken`` is all else: a file that cannot be opened any more, content that nobody wrote, a foreign error."""

    lost: int = 0
    overspent: int = 0
    above: int = 0
    broken: int = 0

    def add(self, other: "Found") -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    @property
    def nothing(self) -> bool:
        return not any(getattr(self, field.name) for field in fields(self))


class Scenario(ABC):
    """Work in a folder, in pieces that may end anywhere; and what must be true of the folder afterwards."""

    name: str

    @abstractmethod
    def work(self, folder: Path, tell: Tell) -> None:
        """One piece of work. ``tell`` is the moment at which somebody has seen a noisy value."""

    @abstractmethod
    def check(self, folder: Path, told: list[str]) -> Found:
        """What is wrong with the folder, given what was told."""

    @abstractmethod
    def locks(self, folder: Path) -> list[Path]:
        """Lock files that a careless hand may remove."""


@final
class Ledgers(Scenario):
    """A question each time, until a budget of 25 is used up."""

    name = "ledger"
    _MOST = 25
    _BUDGET = Budget(epsilon=0.5 * _MOST)

    def work(self, folder: Path, tell: Tell) -> None:
        durable = DurableLedger(path=folder / "ledger.json", adjacency=AddRemove(), budget=self._BUDGET)
        entry = Entry(secrets.token_hex(6), DiscreteLaplace(2.0, 1))
        with durable.open() as held:
            try:
                held.spend((entry,))
            except BudgetExceeded:
                return
            tell(entry.label)
            held.keep({entry.label: _answer(entry)})

    def check(self, folder: Path, told: list[str]) -> Found:
        try:
            ledger = stored_ledger(folder / "ledger.json")
        except PrivetError:
            return Found(broken=1)
        if ledger is None:
            return Found(lost=len(told))
        labels = [entry.label for entry in ledger]
        state = filter_state(ledger)
        reached = 0.0 if state is None else state.reached
        overspent = len(ledger) > self._MOST or reached > self._BUDGET.epsilon
        return Found(
            lost=len(set(told) - set(labels)),
            overspent=int(overspent),
            broken=int(len(set(labels)) < len(labels)),
        )

    def locks(self, folder: Path) -> list[Path]:
        return [folder / "ledger.json.lock"]


def _answer(entry: Entry) -> Answer:
    return Answer(
        label=entry.label,
        value=7,
        error=1.0,
        error_kind=ErrorKind.NOISE_LAW,
        confidence=0.95,
        event=entry.event,
        cost=PrivacyCost(epsilon=0.5, delta=0.0),
        accuracy=1.0,
    )


@final
class Training(Scenario):
    """Some steps of a run each time; its ε pays for the plan, and for no step that runs twice beyond it."""

    name = "training"
    _EPSILON, _DELTA, _AHEAD = 3.0, 1e-5, 3

    def __init__(self) -> None:
        # A run asks again and again what the same steps cost; the answer is remembered, and is the accountant's own.
        training_checkpoint.account = training_plan.account = _remembered  # type: ignore[assignment,attr-defined]
        self._plan = TrainingPlan.calibrated(
            epsilon=self._EPSILON,
            delta=self._DELTA,
            population=1000,
            clip_bound=1.0,
            steps=30,
            sampling=PoissonSampling(0.05),
        )

    def work(self, folder: Path, tell: Tell) -> None:
        with (
            warnings.catch_warnings(action="ignore"),
            Checkpoint(
                folder, self._plan, ahead=self._AHEAD, epsilon=self._EPSILON, delta=self._DELTA
            ) as kept,
        ):
            for step in range(kept.step + 1, min(kept.final_step, kept.step + 5) + 1):
                kept.reserve(step)
                tell(str(step))
                if step % 2 == 0:
                    kept.save(step, {"step": step})

    def check(self, folder: Path, told: list[str]) -> Found:
        journal = folder / "spent.json"
        if not journal.exists():
            return Found(lost=len(told))
        try:
            ledger = Ledger.from_json(json.dumps(json.loads(journal.read_text())["ledger"]))
        except (ValueError, KeyError):
            return Found(broken=1)
        counted = sum(entry.event.times for entry in ledger if isinstance(entry.event, Repeat))
        epsilon = _epsilon(ledger.event, self._DELTA) if ledger.entries else 0.0
        return Found(lost=max(len(told) - counted, 0), above=int(epsilon > self._EPSILON))

    def locks(self, folder: Path) -> list[Path]:
        return [folder / "lock"]


@cache
def _epsilon(event: Event, delta: float) -> float:
    return account(Ledger(AddRemove()).spend("all", event)).epsilon(delta=delta)


@final
@dataclass(frozen=True)
class _Remembered:
    event: Event

    def epsilon(self, *, delta: float) -> float:
        return _epsilon(self.event, delta)


def _remembered(ledger: Ledger) -> _Remembered:
    return _Remembered(ledger.event)


def _nothing(*arguments: object) -> None:
    del arguments


@final
class ShadowCache(Scenario):
    """What a few models said is kept, and found again to the last bit or not at all."""

    name = "shadow cache"
    _MODELS, _RECORDS = 6, 40

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        inputs = random.normal(size=(self._RECORDS, 3))
        self._job = Job(
            recipe=CallableRecipe(_nothing, version="1"),  # type: ignore[arg-type]
            inputs=inputs,
            labels=random.integers(0, 2, self._RECORDS),
            query_inputs=(inputs,),
            members=random.random((self._MODELS, self._RECORDS)) < 0.5,
            seeds=tuple(range(self._MODELS)),
            keep_confidences=False,
        )
        self._truth = random.normal(size=(self._MODELS, 1, self._RECORDS))

    def work(self, folder: Path, tell: Tell) -> None:
        kept = Cache(folder, self._job)
        for model in range(self._MODELS):
            if kept.get(model) is None:
                kept.put(ModelSignals(model, self._truth[model], None))
                tell(str(model))

    def check(self, folder: Path, told: list[str]) -> Found:
        kept = Cache(folder, self._job)
        found = Found()
        for model in range(self._MODELS):
            said = kept.get(model)
            found.lost += said is None and str(model) in told
            found.broken += said is not None and not np.array_equal(said.signals, self._truth[model])
        left = [file for file in folder.rglob("*") if file.is_file() and file.suffix not in (".npz", ".new")]
        found.broken += len(left)
        return found

    def locks(self, folder: Path) -> list[Path]:
        del folder
        return []


def told_in(path: Path) -> list[str]:
    """What was told before a process died."""
    return path.read_text().split() if path.exists() else []


def teller(path: Path) -> Tell:
    """Tell by one write to a file, which survives the death of the process."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    write = os.write

    def tell(label: str) -> None:
        write(descriptor, f"{label}\n".encode())

    return tell
