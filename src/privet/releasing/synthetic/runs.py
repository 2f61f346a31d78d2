"""Runs of a synthetic-data mechanism: step by step, with a ledger that is always up to date."""

import sys
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TextIO, final

import numpy as np

from privet.adjacency import Adjacency, Unit
from privet.arguments import format_value, positive, whole
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.ledger import Ledger
from privet.randomness import NoiseSource, SecureNoise
from privet.releasing.failure import ReleaseFailed
from privet.releasing.synthetic.domain import Domain
from privet.releasing.synthetic.marginals import ExactMarginals
from privet.releasing.synthetic.models import Model
from privet.releasing.synthetic.noisy_access import NoisyAccess

__all__ = ["SyntheticData", "SyntheticMechanism", "SyntheticProgress", "SyntheticRun"]


@final
@dataclass(frozen=True, eq=False)
class SyntheticData:
    """What was released: a distribution over the domain, and the ledger of what it cost.

    Everything that is computed from it is post-processing. The same question gets the same answer, at no
    cost.
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
        """A synthetic table, as a mapping that pandas and Polars accept.

        Its marginals follow the model's as closely as whole rows can. Numbers are spread over their bins. The
        randomness is experiment randomness: it protects nobody, and it need not.
        """
        whole("rows", rows, least=0, most=10**9)
        return self.domain.decode(self.model.sample(rows, generator), generator)


class SyntheticRun(ABC):
    """A release in progress. It can be interrupted and resumed; ``ledger`` has everything spent so far."""

    def __init__(self, domain: Domain, access: NoisyAccess) -> None:
        self._domain, self._access = domain, access

    @property
    def ledger(self) -> Ledger:
        """Everything spent so far."""
        return self._access.ledger

    @property
    def done(self) -> bool:
        """Whether the run is complete."""
        return self.share >= 1

    @property
    @abstractmethod
    def share(self) -> float:
        """The share of the work that is done, 0 to 1."""

    @abstractmethod
    def step(self) -> None:
        """Make the next query. If it fails, its cost stays on the ledger, and the next step continues."""

    @abstractmethod
    def model(self) -> Model:
        """The distribution that fits the answers so far."""

    def finish(self) -> SyntheticData:
        """Make all remaining queries, with a progress bar on a terminal."""
        with SyntheticProgress("synthetic data") as progress:
            while not self.done:
                self.step()
                progress.show(self.share)
        return SyntheticData(self._domain, self.model(), self.ledger)


class SyntheticMechanism(ABC):
    """A method that releases synthetic data. Its fields are public; the table is an argument."""

    domain: Domain
    adjacency: Adjacency
    unit: str | None

    @abstractmethod
    def _begin(self, access: NoisyAccess) -> SyntheticRun:
        """A run over an encoded table."""

    @property
    def _caveats(self) -> frozenset[Caveat]:
        return frozenset()

    def start(self, table: Any, noise: NoiseSource | None = None) -> SyntheticRun:  # noqa: ANN401 - any table
        """Encode the table and begin; nothing is spent yet."""
        source = SecureNoise() if noise is None else noise
        counts = ExactMarginals(self.domain, self.domain.encode(table, unit=self.unit))
        return self._begin(NoisyAccess(counts, self.adjacency, source, self._caveats))

    def release(self, table: Any, noise: NoiseSource | None = None) -> SyntheticData:  # noqa: ANN401
        """Run to the end.

        If it fails, ``ReleaseFailed`` has the ledger of what was spent; an interruption has it as a note. To
        resume after an interruption, call ``start`` and keep the run.
        """
        run = self.start(table, noise)
        try:
            return run.finish()
        except Exception:  # its message may quote the data
            raise ReleaseFailed(run.ledger) from None
        except BaseException as interruption:
            interruption.add_note(f"The ledger of what was spent so far:\n{run.ledger.to_json()}")
            raise

    def _check(self, epsilon: float) -> None:
        positive("epsilon", epsilon)
        if not isinstance(self.domain, Domain):
            raise InvalidArgument(
                f"'domain' must be a Domain, got {format_value(self.domain)}. List its columns."
            )
        if not isinstance(self.adjacency, Adjacency):
            raise InvalidArgument(
                f"'adjacency' must be an adjacency, got {format_value(self.adjacency)}. "
                f"Use AddRemove(), ReplaceOne() or ZeroOut()."
            )
        if (self.unit is None) != (self.adjacency.unit is Unit.RECORD):
            raise InvalidArgument(
                f"'unit' must name the column of users or clients, and be left out where the unit is a "
                f"record, got {format_value(self.unit)} with {self.adjacency}. Give the column and, for "
                f"example, AddRemove(Unit.USER)."
            )


@final
class SyntheticProgress:
    """A progress bar on a terminal, after two seconds; silent elsewhere."""

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self._label, self._stream = label, sys.stderr if stream is None else stream
        self._began, self._shown = time.monotonic(), 0.0

    def __enter__(self) -> "SyntheticProgress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._stream.write("\n")
            self._stream.flush()

    def show(self, share: float) -> None:
        """Redraw the bar, at most ten times a second."""
        now = time.monotonic()
        if now - self._began < 2 or now - self._shown < 0.1 or not self._stream.isatty():
            return
        self._shown = now
        filled = round(30 * min(max(share, 0.0), 1.0))
        bar = "█" * filled + "·" * (30 - filled)
        self._stream.write(f"\r{self._label} {bar} {share:4.0%} {now - self._began:5.0f} s")
        self._stream.flush()
