"""A run of a synthetic-data mechanism: step by step, with its ledger always at hand."""

import sys
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TextIO, final

import numpy as np

from privet.adjacency import Adjacency, Unit
from privet.arguments import positive, shown, whole
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.ledger import Ledger
from privet.randomness import NoiseSource, SecureNoise
from privet.releasing.failure import ReleaseFailed
from privet.releasing.synthetic.domain import Domain
from privet.releasing.synthetic.looks import Looks
from privet.releasing.synthetic.marginals import Counts
from privet.releasing.synthetic.models import Model

__all__ = ["Mechanism", "Progress", "Run", "Synthetic"]


@final
@dataclass(frozen=True, eq=False)
class Synthetic:
    """What was released: a distribution over the domain, and the ledger of what it cost.

    All that is done with it is post-processing. The same question gets the same answer, and costs nothing.
    """

    domain: Domain
    model: Model
    ledger: Ledger

    @property
    def total(self) -> float:
        """The estimated number of rows."""
        return self.model.total

    def answer(self, columns: tuple[str, ...]) -> np.ndarray:
        """The estimated count in each cell of a marginal, its axes in the order of ``columns``."""
        return self.model.answer(self.domain.axes(columns))

    def sample(self, rows: int, generator: np.random.Generator) -> dict[str, np.ndarray]:
        """A synthetic table, as a mapping that pandas and Polars take as it is.

        Its marginals follow the model's as closely as whole rows can. Numbers are spread over their bins. The
        randomness is that of an experiment: it protects nobody, and need not.
        """
        whole("rows", rows, least=0, most=10**9)
        return self.domain.decode(self.model.sample(rows, generator), generator)


class Run(ABC):
    """A release under way. It can be interrupted and taken up again; ``ledger`` has all that was spent so far."""

    def __init__(self, domain: Domain, looks: Looks) -> None:
        self._domain, self._looks = domain, looks

    @property
    def ledger(self) -> Ledger:
        """Everything that was spent until now."""
        return self._looks.ledger

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return self.share >= 1

    @property
    @abstractmethod
    def share(self) -> float:
        """How much of the work is done, 0 to 1."""

    @abstractmethod
    def step(self) -> None:
        """Take the next look. When it fails, what it spent stays on the ledger, and the next step goes on."""

    @abstractmethod
    def model(self) -> Model:
        """The distribution as it is known now."""

    def finish(self) -> Synthetic:
        """Take all looks that are left, with a bar on a terminal."""
        with Progress("synthetic data") as progress:
            while not self.done:
                self.step()
                progress.show(self.share)
        return Synthetic(self._domain, self.model(), self.ledger)


class Mechanism(ABC):
    """A way to release synthetic data. Its fields are public; the table is an argument."""

    domain: Domain
    adjacency: Adjacency
    unit: str | None

    @abstractmethod
    def _begin(self, looks: Looks) -> Run:
        """A run over a table that was encoded."""

    @property
    def _caveats(self) -> frozenset[Caveat]:
        return frozenset()

    def start(self, table: Any, noise: NoiseSource | None = None) -> Run:  # noqa: ANN401 - any kind of table
        """Encode the table and begin; nothing is spent yet."""
        source = SecureNoise() if noise is None else noise
        counts = Counts(self.domain, self.domain.encode(table, unit=self.unit))
        return self._begin(Looks(counts, self.adjacency, source, self._caveats))

    def release(self, table: Any, noise: NoiseSource | None = None) -> Synthetic:  # noqa: ANN401 - any kind of table
        """Run to the end.

        Should it fail on the way, ``ReleaseFailed`` has the ledger of what was spent, and an interruption has it as a
        note; whoever wants to go on after that calls ``start`` and keeps the run.
        """
        run = self.start(table, noise)
        try:
            return run.finish()
        except Exception:  # its message may speak of the data
            raise ReleaseFailed(run.ledger) from None
        except BaseException as stopped:
            stopped.add_note(f"What was spent until then, as a ledger:\n{run.ledger.to_json()}")
            raise

    def _check(self, epsilon: float) -> None:
        positive("epsilon", epsilon)
        if not isinstance(self.domain, Domain):
            raise InvalidArgument(f"'domain' must be a Domain, got {shown(self.domain)}. List its columns.")
        if not isinstance(self.adjacency, Adjacency):
            raise InvalidArgument(
                f"'adjacency' must be an adjacency, got {shown(self.adjacency)}. "
                f"Use AddRemove(), ReplaceOne() or ZeroOut()."
            )
        if (self.unit is None) != (self.adjacency.unit is Unit.RECORD):
            raise InvalidArgument(
                f"'unit' must name the column of the unit where that is not the record, and be left out where it "
                f"is; got {shown(self.unit)} with {self.adjacency}. Give the column and, say, AddRemove(Unit.USER)."
            )


@final
class Progress:
    """A bar on a terminal for what takes over two seconds; silent elsewhere."""

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self._label, self._stream = label, sys.stderr if stream is None else stream
        self._began, self._shown = time.monotonic(), 0.0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._stream.write("\n")
            self._stream.flush()

    def show(self, share: float) -> None:
        """Draw the bar anew, at most ten times a second."""
        now = time.monotonic()
        if now - self._began < 2 or now - self._shown < 0.1 or not self._stream.isatty():
            return
        self._shown = now
        filled = round(30 * min(max(share, 0.0), 1.0))
        bar = "█" * filled + "·" * (30 - filled)
        self._stream.write(f"\r{self._label} {bar} {share:4.0%} {now - self._began:5.0f} s")
        self._stream.flush()
