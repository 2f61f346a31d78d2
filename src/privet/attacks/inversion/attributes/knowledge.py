"""What the adversary of an attribute attack knows besides the model: people whose secret is public.

They are third people, neither members nor targets. From them come the marginals of the secret, its
*imputation* (what the other columns and the label alone tell about it), and how wrong the model is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.attacks.estimators import impute
from privet.attacks.inversion.attributes.answers import PredictedNumbers
from privet.attacks.inversion.attributes.secret import SecretAttribute
from privet.errors import InvalidArgument
from privet.views import Labels, Numbers, Rows

__all__ = ["PublicPeople"]

_FEWEST = 20


@final
@dataclass(frozen=True, eq=False)
class PublicPeople:
    """People whose records are public, secret included: rows of the model's input, and the label of each.

    ``targets`` are class numbers, or for a regression model the numbers that it predicts.
    """

    inputs: Rows
    targets: NDArray[Any]
    secret: SecretAttribute
    seed: int = 0

    def __post_init__(self) -> None:
        inputs, targets = np.asarray(self.inputs), np.asarray(self.targets)
        if inputs.ndim != 2 or targets.shape != (len(inputs),) or len(inputs) < _FEWEST:
            raise InvalidArgument(
                f"'inputs' must be rows × columns of at least {_FEWEST} public people and 'targets' one "
                f"label for each, got shapes {inputs.shape} and {targets.shape}. Give people who are "
                f"neither members nor targets."
            )
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "targets", targets)

    @cached_property
    def numbers(self) -> Labels:
        """The number of each person's value."""
        return self.secret.number(self.inputs)

    @cached_property
    def log_marginals(self) -> Numbers:
        """ln of the share of each value, with one half added to each count (Krichevsky & Trofimov 1981)."""
        counts = np.bincount(self.numbers, minlength=self.secret.count) + 0.5
        answer: Numbers = np.log(counts / counts.sum())
        return answer

    def log_imputations(self, inputs: Rows, targets: NDArray[Any]) -> Numbers:
        """ln P[value | other columns, label] of each record, records × values.

        The better of a logistic regression and boosted trees, by cross-validation among the public people.
        Values that the learner never saw get their marginal.
        """
        learned = self._imputation(self._features(inputs, targets))
        mixed = 0.999 * learned + 0.001 * np.exp(self.log_marginals)
        answer: Numbers = np.log(mixed / mixed.sum(axis=1, keepdims=True))
        return answer

    def error_spread(self, view: PredictedNumbers) -> float:
        """The standard deviation of a regression model's error on the public people."""
        spread = float(np.std(self.targets.astype(np.float64) - view.numbers(self.inputs)))
        return max(spread, 1e-12)

    @cached_property
    def _imputation(self) -> Any:  # noqa: ANN401 - a function from features to probabilities
        features = self._features(self.inputs, self.targets)
        return impute(features, self.numbers, self.secret.count, seed=self.seed)

    def _features(self, inputs: Rows, targets: NDArray[Any]) -> Sequence[NDArray[Any]]:
        rest = self.secret.other_columns(np.asarray(inputs))
        return [*rest.T, _as_column(targets)]


def _as_column(targets: NDArray[Any]) -> NDArray[Any]:
    """Class numbers are names, not amounts, so the learner must not read them as numbers."""
    return targets.astype(str) if targets.dtype.kind in "iub" else targets
