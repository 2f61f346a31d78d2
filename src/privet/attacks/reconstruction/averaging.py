"""Averaging: the same question asked again and again, until the noise is gone.

The mean of K answers with fresh noise of standard deviation σ is off by σ/√K. A store that gives its answer
again repeats the same noise: the mean of K such answers is off by σ, whatever K. Fresh answers cost K times
the privacy, and the ledger counts it; a stored answer costs nothing, and tells nothing new.

For Laplace noise of scale b the median is the better estimate (b/√K in place of b√2/√K, for large K).
"""

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import whole
from privet.attacks.reconstruction.secret_number import SecretNumber, check_numbers
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.recoveries import Recoveries, RecoveryGame
from privet.scores import Bits
from privet.views import Adversary, Numbers

__all__ = ["Averaging"]


@final
@dataclass(frozen=True)
class Averaging:
    """The mean of several answers to the same question; their median ``by_median``.

    ``repeats`` takes the first so many answers of each target.

    >>> answers = 150 + np.random.default_rng(0).laplace(0, 10, (1, 1000))
    >>> [Averaging(repeats=k).estimate(answers).round(1).tolist() for k in (1000, 1)]
    [[150.5], [153.2]]
    """

    secret: SecretNumber = field(default_factory=SecretNumber)
    repeats: int | None = None
    by_median: bool = False
    name: str = "averaging"

    def __post_init__(self) -> None:
        if self.repeats is not None:
            whole("repeats", self.repeats)

    @property
    def adversary(self) -> Adversary:
        """Who attacks: what they see, know and want."""
        return Adversary(
            sees="answers to the same question, again and again",
            knows="that nothing but the noise differs",
            wants="the exact answer",
        )

    def estimate(self, answers: NDArray[Any]) -> Numbers:
        """The number behind each row of answers, targets × repeats."""
        table = check_numbers("answers", answers, (None, None))
        if self.repeats is not None:
            if table.shape[1] < self.repeats:
                raise InvalidArgument(
                    f"'answers' must have {self.repeats} repeats of each question, got {table.shape[1]}. Ask "
                    "more often, or lower 'repeats'."
                )
            table = table[:, : self.repeats]
        return self.secret.fit(np.median(table, axis=1) if self.by_median else table.mean(axis=1))

    def run(
        self,
        answers: NDArray[Any],
        secrets: NDArray[Any],
        *,
        blind: NDArray[Any] | None = None,
        members: Bits | None = None,
        candidates: int | None = None,
    ) -> Recoveries:
        """Recover every number, and join the truth; baselines are those of ``Differencing``."""
        recovered = self.estimate(answers)
        truths = check_numbers("secrets", secrets, recovered.shape)
        guess = (
            None
            if blind is None
            else check_numbers("blind", np.broadcast_to(blind, truths.shape), truths.shape)
        )
        game = RecoveryGame(truths, members, guess, self.secret.criterion, candidates=candidates)
        return game.judge(recovered, self.name, adversary=self.adversary)


check_public_calls(__name__)
