"""Differencing: two harmless answers that differ by one person give that person away.

"The sum of all salaries" and "the sum of all salaries but the director's" each speak of many people. Their
difference is one salary. Rules such as "no answer about fewer than ten people" do not help. With noise of
standard deviation σ on both answers, the difference is off by σ√2, however many people there are.

Reference: Denning, Denning & Schwartz 1979, "The tracker", for queries that are composed so.
"""

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import whole
from privet.attacks.reconstruction.secret_number import SecretNumber, check_numbers
from privet.public_calls import check_public_calls
from privet.recoveries import Recoveries, RecoveryGame
from privet.scores import Bits
from privet.views import Adversary, Numbers

__all__ = ["Differencing"]


@final
@dataclass(frozen=True)
class Differencing:
    """The value of a person from an answer with them and one without them.

    Answers are sums or counts. With ``people`` they are means, of so many people with the target and of one
    fewer without.

    >>> attack = Differencing(SecretNumber(lower=0, upper=20_000))
    >>> attack.estimate(np.array([131_200.0]), np.array([126_000.0])).tolist()
    [5200.0]
    >>> Differencing(people=10).estimate(np.array([13.0]), np.array([12.0])).tolist()
    [22.0]
    """

    secret: SecretNumber = field(default_factory=SecretNumber)
    people: int | None = None
    name: str = "differencing"

    def __post_init__(self) -> None:
        if self.people is not None:
            whole("people", self.people, least=2)

    @property
    def adversary(self) -> Adversary:
        """Who attacks: what they see, know and want."""
        return Adversary(
            sees="two answers that differ by one person",
            knows="which person that is",
            wants="the number that this person contributed",
        )

    def estimate(self, with_target: NDArray[Any], without_target: NDArray[Any]) -> Numbers:
        """The number of each target, from the two answers of each."""
        more = check_numbers("with_target", with_target, (None,))
        fewer = check_numbers("without_target", without_target, (len(more),))
        if self.people is not None:
            more, fewer = more * self.people, fewer * (self.people - 1)
        return self.secret.fit(more - fewer)

    def run(
        self,
        with_target: NDArray[Any],
        without_target: NDArray[Any],
        secrets: NDArray[Any],
        *,
        blind: NDArray[Any] | None = None,
        members: Bits | None = None,
        candidates: int | None = None,
    ) -> Recoveries:
        """Recover the number of every target, and join the truth.

        The baseline is ``blind`` (the best guess of each number from public knowledge), or targets that a
        coin (``members``) left out of the first answer too, or ``candidates`` = k where each number was drawn
        from k public ones.
        """
        recovered = self.estimate(with_target, without_target)
        truths = check_numbers("secrets", secrets, recovered.shape)
        guess = (
            None
            if blind is None
            else check_numbers("blind", np.broadcast_to(blind, truths.shape), truths.shape)
        )
        game = RecoveryGame(truths, members, guess, self.secret.criterion, candidates=candidates)
        return game.judge(recovered, self.name, adversary=self.adversary)


check_public_calls(__name__)
