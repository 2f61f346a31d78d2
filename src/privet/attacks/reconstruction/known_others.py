"""Differencing with many answers, by an adversary who knows everybody else: which value does the target have?

This is the adversary of differential privacy. They know all other people, so for each value that the target
may have they know what every answer would be without noise. The value under which the published answers are
most likely is the target's. With one answer this is ``Differencing``: the answer minus that about the others.

*Ceiling*: each value is drawn from k public ones, so a blind guess is right with probability 1/k.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.attacks.reconstruction.secret_number import check_numbers
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.recoveries import Criterion, Recoveries, RecoveryGame
from privet.views import Adversary, Labels, Numbers

__all__ = ["KnownOthers"]


@final
@dataclass(frozen=True)
class KnownOthers:
    """The most likely of k values of the target, for Laplace noise, or for Gaussian noise where ``gaussian``.

    >>> attack = KnownOthers()
    >>> attack.pick(np.array([[10.4], [11.2]]), np.array([[10.0], [11.0]]), np.array([1.0])).tolist()
    [0, 1]
    """

    gaussian: bool = False
    name: str = "differencing"

    @property
    def adversary(self) -> Adversary:
        """Who attacks: what they see, know and want."""
        return Adversary(sees="the published answers", knows="everybody else", wants="a value of one person")

    def pick(self, answers: NDArray[Any], expected: NDArray[Any], scales: NDArray[Any]) -> Labels:
        """The number of the most likely value, for each release.

        ``answers`` are releases × answers, ``expected`` are values × answers without noise, and ``scales``
        say how wide the noise of each answer is.
        """
        expected = check_numbers("expected", expected, (None, None))
        count = expected.shape[1]
        answers = check_numbers("answers", answers, (None, count))
        scales = check_numbers("scales", scales, (count,))
        if (scales <= 0).any():
            raise InvalidArgument("'scales' must be above 0, got another. Leave out answers without noise.")
        gaps: Numbers = np.abs(answers[:, None, :] - expected) / scales
        losses = (gaps**2 if self.gaussian else gaps).sum(axis=2)
        chosen: Labels = losses.argmin(axis=1).astype(np.int64)
        return chosen

    def run(
        self, answers: NDArray[Any], expected: NDArray[Any], scales: NDArray[Any], truths: NDArray[Any]
    ) -> Recoveries:
        """Pick the value of the target in each release, and join the truth.

        ``truths`` are the numbers of the true values, each drawn at random.
        """
        chosen = self.pick(answers, expected, scales)
        game = RecoveryGame(
            np.asarray(truths), criterion=Criterion.exactly("the value is right"), candidates=len(expected)
        )
        return game.judge(chosen, self.name, adversary=self.adversary)


check_public_calls(__name__)
