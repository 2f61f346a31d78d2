"""What a linear reconstruction is: an estimate of each person's secret bit from many published sums.

Dinur & Nissim (2003) showed that answers to enough random subset sums give away almost every bit, unless
their errors are of the order of √n. An attack is shown the queries and the answers; ``run`` rounds its
estimates and joins the truth afterwards. All people are in the data, so the baseline is the best blind guess:
the value that more people have, by public knowledge.

*Ceiling*: the ledger must protect a person with all of their answers. A hit on a bit is then a test of
whether that person is in the data, whose false-positive rate is at most that of the blind guess if bits are
independent with the public ``prior``.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import open_fraction
from privet.attacks.reconstruction.subset_sums import SubsetSums
from privet.errors import InvalidArgument
from privet.recoveries import Criterion, Recoveries, RecoveryGame
from privet.views import Adversary, Labels, Numbers

__all__ = ["LinearReconstruction"]


@dataclass(frozen=True)
class LinearReconstruction(ABC):
    """One adversary who wants a secret bit of every person. ``prior`` is the public share of ones."""

    name: ClassVar[str]
    prior: float = 0.5

    def __post_init__(self) -> None:
        open_fraction("prior", self.prior)

    @property
    def adversary(self) -> Adversary:
        """Who attacks: what they see, know and want."""
        return Adversary(
            sees="noisy sums over subsets of people",
            knows="who is in which subset, and how frequent a 1 is",
            wants="the secret bit of each person",
        )

    @abstractmethod
    def estimate(self, published: SubsetSums) -> Numbers:
        """One number for each person, 1 if the bit is surely set and 0 if it surely is not.

        Secrets are not among the arguments.
        """

    @final
    def recover(self, published: SubsetSums) -> Labels:
        """The bit of each person. A tie goes to the value that more people have."""
        return self._round(self.estimate(published))

    @final
    def run(
        self,
        published: SubsetSums,
        secrets: NDArray[Any],
        *,
        candidates: int | None = None,
        groups: NDArray[np.str_] | None = None,
    ) -> Recoveries:
        """Reconstruct every bit, and join the truth.

        ``candidates=2`` promises that the bits are fair coins; without it the baseline is the blind guess.
        """
        truths = np.asarray(secrets)
        if truths.shape != (published.people,) or not np.isin(truths, (0, 1)).all():
            raise InvalidArgument(
                f"'secrets' must be 0 or 1 for each of {published.people} people, got an array of shape "
                f"{truths.shape}. Give the bit of each "
                f"person, in the order of the columns of the queries."
            )
        estimates = self.estimate(published)
        game = RecoveryGame(
            truths.astype(np.int64),
            blind=np.full(len(truths), int(self.prior >= 0.5)),
            criterion=Criterion.exactly("the bit is right"),
            groups=groups,
            candidates=candidates,
        )
        return game.judge(
            self._round(estimates), self.name, adversary=self.adversary, confidence=np.abs(estimates - 0.5)
        )

    def _round(self, estimates: Numbers) -> Labels:
        ones = estimates >= 0.5 if self.prior >= 0.5 else estimates > 0.5
        bits: Labels = ones.astype(np.int64)
        return bits
