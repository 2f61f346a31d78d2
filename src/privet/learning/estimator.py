"""What the private linear models share: public arguments, rows in the unit ball, one fit for each column of targets."""

from abc import ABCMeta, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from privet.adjacency import AddRemove, Adjacency, ReplaceOne
from privet.arguments import shown
from privet.caveats import Caveat
from privet.errors import InvalidArgument, NotProved
from privet.events import Repeat
from privet.learning.inputs import answers_of, noise_source, numbers, plain, table, validated
from privet.learning.losses import Floats, Loss
from privet.learning.noisy_sgd import NoisySGD
from privet.learning.scaling import UnitBall
from privet.learning.solver import Solver, Terms
from privet.ledger import Ledger
from privet.randomness import NoiseSource

from sklearn.base import BaseEstimator  # type: ignore[import-untyped]  # isort: skip - after the check for scikit-learn
from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]  # isort: skip

__all__ = ["PrivateLinear"]


class PrivateLinear(BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """A linear model that is fitted by a private solver."""

    epsilon: float
    delta: float
    solver: Solver | None
    alpha: float | None
    norm_bound: float
    fit_intercept: bool
    population: int | None
    adjacency: Adjacency | None
    noise: NoiseSource | None
    random_state: int | None

    @abstractmethod
    def _loss(self) -> Loss:
        """The loss of a score; refuses parameters that make none."""

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn has no types
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags

    def _opened(self, X: Any, y: Any, *, declared: bool) -> tuple[Floats, np.ndarray]:  # noqa: N803, ANN401 - scikit-learn's names
        """The rows as numbers, and the answers: one by one where what they may be is ``declared``.

        Missing values and texts stay: an error that depended on them would tell that they are there. scikit-learn would
        choose one type for all answers, so that a single text makes texts of all numbers.
        """
        if declared:
            rows = validated(self, table(X))
            return numbers(rows), answers_of(y, rows.shape[0])
        rows, answers = validated(self, table(X), y)
        return numbers(rows), answers

    def _learn(self, features: Floats, columns: list[Floats], caveats: frozenset[Caveat], what: str) -> None:
        """One private fit for each column of targets; a target that is NaN leaves its row out."""
        loss, relation, source = self._loss(), self._relation(), noise_source(self.noise, self.random_state)
        ball = UnitBall(float(plain(self.norm_bound)), bool(self.fit_intercept))
        terms = Terms(
            loss=loss,
            dimension=features.shape[1] + ball.intercept,
            population=self._population(features.shape[0], relation),
            regularization=0.0 if self.alpha is None else plain(self.alpha),
            adjacency=relation,
        )
        terms.check_rows(features.shape[0])
        solver, epsilon, delta = self._solver(), plain(self.epsilon), plain(self.delta)
        if self.alpha is None:
            chosen = solver.choose_regularization(terms, epsilon=epsilon, delta=delta, times=len(columns))
            terms = replace(terms, regularization=chosen)
        prepared = solver.prepare(terms, epsilon=epsilon, delta=delta, times=len(columns))
        rows = ball.rows(features)
        if 10 * terms.population * delta >= 1:
            caveats |= {Caveat.DELTA_TOO_LARGE}
        event = prepared.event if len(columns) == 1 else Repeat(prepared.event, len(columns))
        # Written before anything is released: whatever fails from here on, the ledger does not say too little.
        self.ledger_ = Ledger(relation).spend(
            what, event, caveats=caveats | prepared.caveats | source.caveats
        )
        fits = []
        for targets in columns:
            known = ~np.isnan(targets)
            fits.append(ball.unscaled(prepared.run(rows[known], targets[known], source)))
        self.coef_ = np.stack([weights for weights, _ in fits])
        self.intercept_ = np.array([constant for _, constant in fits])
        self.alpha_ = prepared.regularization
        self.prepared_ = prepared

    def _scores(self, X: Any) -> Floats:  # noqa: N803, ANN401
        check_is_fitted(self)
        rows = validated(self, table(X), reset=False)
        features = np.clip(np.nan_to_num(numbers(rows), nan=0.0), -1e100, 1e100)  # sums stay finite
        return np.asarray(features @ np.atleast_2d(self.coef_).T + self.intercept_)

    def _solver(self) -> Solver:
        if self.solver is None:
            return NoisySGD()
        if not isinstance(self.solver, Solver):
            raise InvalidArgument(
                f"'solver' must be a solver or None, got {shown(self.solver)}. "
                f"Use OutputPerturbation(), ObjectivePerturbation() or NoisySGD()."
            )
        return self.solver

    def _relation(self) -> Adjacency:
        relation = ReplaceOne() if self.adjacency is None else self.adjacency
        if not isinstance(relation, Adjacency):
            raise InvalidArgument(
                f"'adjacency' must be an adjacency or None, got {shown(relation)}. "
                f"Use ReplaceOne(), ZeroOut(), or AddRemove() with a population."
            )
        return relation

    def _population(self, rows: int, relation: Adjacency) -> int:
        if self.population is not None:
            return int(plain(self.population)) if isinstance(plain(self.population), int) else self.population
        if isinstance(relation, AddRemove):
            raise NotProved(
                "'population' must be given under add-remove adjacency, because the number of rows is then a secret "
                "and the mean of the losses needs a number. Give a public guess of the table's size."
            )
        return rows
