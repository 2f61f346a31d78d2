"""What the private linear models share: arguments, scaled rows, one fit for each column of targets."""

from abc import ABCMeta, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from privet.adjacency import AddRemove, Adjacency
from privet.arguments import format_value, whole
from privet.caveats import Caveat
from privet.errors import InvalidArgument, NotProved
from privet.events import Event, Repeat
from privet.learning.inputs import (
    choose_noise_source,
    read_adjacency,
    read_table,
    read_targets,
    to_numbers,
    to_scalar,
    to_table,
)
from privet.learning.losses import ConvexLoss, Floats
from privet.learning.noisy_sgd import NoisySGD
from privet.learning.scaling import UnitBall
from privet.learning.solver import PreparedFit, Problem, Solver
from privet.ledger import Ledger
from privet.randomness import NoiseSource

from sklearn.base import BaseEstimator  # type: ignore[import-untyped]  # isort: skip - after the check
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
    adjacency: Adjacency | type[Adjacency]
    noise: NoiseSource | None
    random_state: int | None

    @abstractmethod
    def _loss(self) -> ConvexLoss:
        """The loss of a score; refuses parameters that make no loss."""

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn has no types
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags

    def _read_data(
        self,
        X: Any,  # noqa: N803, ANN401 - scikit-learn's name
        y: Any,  # noqa: ANN401
        *,
        declared: bool,
    ) -> tuple[Floats, np.ndarray]:
        """The rows as numbers, and the answers.

        Answers whose possible values are ``declared`` are read one by one.

        Missing values and texts stay: an error would tell that they are there. scikit-learn would choose one
        type for all answers, so that a single text would turn all numbers into texts.
        """
        if declared:
            rows = read_table(self, to_table(X))
            return to_numbers(rows), read_targets(y, rows.shape[0])
        rows, answers = read_table(self, to_table(X), y)
        return to_numbers(rows), answers

    def _learn(self, features: Floats, columns: list[Floats], caveats: frozenset[Caveat], what: str) -> None:
        """One private fit for each column of targets; a target that is NaN leaves its row out."""
        loss, adjacency = self._loss(), self._checked_adjacency()
        source = choose_noise_source(self.noise, self.random_state)
        ball = UnitBall(float(to_scalar(self.norm_bound)), bool(self.fit_intercept))
        population = self._population(features.shape[0], adjacency)
        problem = self._problem(loss, features.shape[1] + ball.intercept, population, adjacency)
        problem.check_rows(features.shape[0], self._solver().count_most_rows(problem))
        prepared = self._prepare(problem, len(columns))
        rows = ball.rows(features)
        if 10 * problem.population * to_scalar(self.delta) >= 1:
            caveats |= {Caveat.DELTA_TOO_LARGE}
        event = _repeat(prepared.event, len(columns))
        # Written before anything is released, so that a later failure cannot leave a cost out.
        self.ledger_ = Ledger(adjacency).spend(
            what, event, caveats=caveats | prepared.caveats | source.caveats
        )
        fits = []
        for targets in columns:
            known = ~np.isnan(targets)
            fits.append(ball.unscale(prepared.run(rows[known], targets[known], source)))
        self.coef_ = np.stack([weights for weights, _ in fits])
        self.intercept_ = np.array([constant for _, constant in fits])
        self.alpha_ = prepared.regularization
        self.prepared_ = prepared

    def quote(self, features: int, *, fits: int = 1) -> Event:
        """What a fit of so many features would spend; no row is read. ``population`` must be given.

        ``fits`` is the number of classes where there are more than two, and 1 otherwise.
        """
        adjacency = self._checked_adjacency()
        if self.population is None:
            raise InvalidArgument(
                "'population' must be given for a quote, got None. Give a public guess of the table's size."
            )
        dimension = whole("features", features) + bool(self.fit_intercept)
        problem = self._problem(self._loss(), dimension, to_scalar(self.population), adjacency)
        return _repeat(self._prepare(problem, whole("fits", fits)).event, fits)

    def _problem(self, loss: ConvexLoss, dimension: int, population: int, adjacency: Adjacency) -> Problem:
        return Problem(
            loss=loss,
            dimension=dimension,
            population=population,
            regularization=0.0 if self.alpha is None else to_scalar(self.alpha),
            adjacency=adjacency,
        )

    def _prepare(self, problem: Problem, times: int) -> PreparedFit:
        solver, epsilon, delta = self._solver(), to_scalar(self.epsilon), to_scalar(self.delta)
        if self.alpha is None:
            chosen = solver.choose_regularization(problem, epsilon=epsilon, delta=delta, times=times)
            problem = replace(problem, regularization=chosen)
        return solver.prepare(problem, epsilon=epsilon, delta=delta, times=times)

    def _scores(self, X: Any) -> Floats:  # noqa: N803, ANN401
        check_is_fitted(self)
        rows = read_table(self, to_table(X), reset=False)
        features = np.clip(np.nan_to_num(to_numbers(rows), nan=0.0), -1e100, 1e100)  # sums stay finite
        return np.asarray(features @ np.atleast_2d(self.coef_).T + self.intercept_)

    def _solver(self) -> Solver:
        if self.solver is None:
            return NoisySGD()
        if not isinstance(self.solver, Solver):
            raise InvalidArgument(
                f"'solver' must be a solver or None, got {format_value(self.solver)}. "
                f"Use OutputPerturbation(), ObjectivePerturbation() or NoisySGD()."
            )
        return self.solver

    def _checked_adjacency(self) -> Adjacency:
        return read_adjacency(
            self.adjacency, "Use ReplaceOne(), ZeroOut(), or AddRemove() with a population."
        )

    def _population(self, rows: int, adjacency: Adjacency) -> int:
        if self.population is not None:
            population: int = to_scalar(self.population)
            return population
        if isinstance(adjacency, AddRemove):
            raise NotProved(
                "'population' must be given under add-remove adjacency, because the number of rows is then "
                "secret, and the mean of the losses divides by it. Give a public guess of the table's size."
            )
        return rows


def _repeat(event: Event, times: int) -> Event:
    return event if times == 1 else Repeat(event, times)
