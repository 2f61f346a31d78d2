"""Randomised response: everybody randomises their own answer, so nobody needs to be trusted.

Each person tells the truth with probability ``truth``, and otherwise gives one of the other answers. One
person's answer is deniable, and estimates from many answers are unbiased. The noise is in the answers
already, so the estimators here are post-processing and cost nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from privet import events
from privet.adjacency import Adjacency, ReplaceOne, ZeroOut
from privet.arguments import format_value, fraction, open_fraction, positive, whole
from privet.bounds import Interval
from privet.errors import InvalidArgument, NotProved
from privet.mechanisms.mechanism import SECURE, Mechanism, check_adjacency
from privet.mechanisms.queries import check_categories
from privet.mechanisms.records import Floats, indices
from privet.mechanisms.sampling import bernoulli, uniform_integers
from privet.randomness import NoiseSource

__all__ = ["KaryResponse", "RandomizedResponse"]


@final
@dataclass(frozen=True)
class RandomizedResponse(Mechanism[NDArray[np.bool_]]):
    """Yes or no: the truth with probability ``truth``, above ½, else its opposite.

    With two coins, "the truth on heads, and on tails whatever the second coin says", ``truth`` is ¾.

    *Guarantee*: ε = ln(truth/(1 − truth)) under replace-one. Under zero-out, where a missing answer is a
    random one, ε is less. Under add-remove there is no guarantee, because everybody sees who answered.

    *Adversary*: sees every single answer, and knows the coin's bias.

    *Reference*: Warner 1965.

    >>> coin = RandomizedResponse(0.75, ReplaceOne())
    >>> f"{coin.posterior(True, prior=0.02):.3f}"
    '0.058'
    """

    truth: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        _check(self.truth, 2, self.adjacency)

    @staticmethod
    def biased(bias: float, *, adjacency: Adjacency) -> "RandomizedResponse":
        """The truth with probability ½ + γ; two coins have γ = ¼."""
        if not 0 < positive("bias", bias) < 0.5:
            raise InvalidArgument(
                f"'bias' must lie strictly between 0 and 1/2, got {bias!r}, because the truth is told with "
                f"probability 1/2 + bias. Use 0.25 for two coins."
            )
        return RandomizedResponse(0.5 + bias, adjacency)

    @staticmethod
    def calibrated(*, epsilon: float, adjacency: Adjacency) -> "RandomizedResponse":
        """As truthful as ε allows: exp(ε)/(1 + exp(ε)) under replace-one."""
        return RandomizedResponse(_most_truth(epsilon, 2, adjacency), adjacency)

    @property
    def event(self) -> events.Event:
        return events.RandomizedResponse(self.truth)

    def release(self, data: object, noise: NoiseSource = SECURE) -> NDArray[np.bool_]:
        """Everybody's randomised answer. A record that is neither yes nor no gets a random answer."""
        answers = indices(data, {False: 0, True: 1})
        return _randomize(answers, 2, self.truth, noise).astype(np.bool_)

    def estimate(self, responses: Sequence[bool] | NDArray[np.bool_]) -> float:
        """The unbiased estimate of the fraction of true yeses: 2·mean − ½ for two coins.

        It may leave [0, 1].
        """
        yes, people = _count_yeses(responses)
        return self._true_share(yes / people)

    def variance(self, *, yes: float, people: int) -> float:
        """The variance of the estimate from ``people`` people, if a fraction ``yes`` would truly say yes."""
        said = _share("yes", yes) * self.truth + (1 - yes) * (1 - self.truth)
        return said * (1 - said) / (whole("people", people) * (2 * self.truth - 1) ** 2)

    def interval(self, responses: Sequence[bool] | NDArray[np.bool_], *, confidence: float) -> Interval:
        """An exact interval for the true fraction: Clopper & Pearson's for the responses, mapped back.

        For people sampled from a population it covers the truth with at least this probability. For the
        fraction among the people who answered it is wider than needed, because their responses vary less.
        """
        yes, people = _count_yeses(responses)
        said = _clopper_pearson(yes, people, 1 - open_fraction("confidence", confidence))
        return Interval(_clip(self._true_share(said.lower)), _clip(self._true_share(said.upper)))

    def error(self, *, people: int, confidence: float) -> float:
        """With this probability the estimate is no further off, whatever the truth (Hoeffding 1963)."""
        failure = 1 - open_fraction("confidence", confidence)
        return math.sqrt(math.log(2 / failure) / (2 * whole("people", people))) / (2 * self.truth - 1)

    def posterior(self, answer: bool, *, prior: float) -> float:
        """The probability that somebody's true answer is yes, given their response and a prior."""
        if not isinstance(answer, (bool, np.bool_)):
            raise InvalidArgument(
                f"'answer' must be True or False, got another, of type {type(answer).__name__}. Give what "
                "the person said."
            )
        open_fraction("prior", prior)
        if_yes, if_no = (self.truth, 1 - self.truth) if answer else (1 - self.truth, self.truth)
        return prior * if_yes / (prior * if_yes + (1 - prior) * if_no)

    def _true_share(self, said: float) -> float:
        return (said - (1 - self.truth)) / (2 * self.truth - 1)


@final
@dataclass(frozen=True)
class KaryResponse(Mechanism[list[Any]]):
    """One of k public answers: the truth with probability ``truth``, above 1/k, else a random other answer.

    *Guarantee*: ε = ln(truth (k − 1)/(1 − truth)) under replace-one; less under zero-out; none under
    add-remove.

    *Reference*: Warner 1965; Kairouz, Bonawitz & Ramage 2016, who show it to be the best for large ε.
    """

    answers: tuple[Any, ...]
    truth: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        check_categories("answers", self.answers)
        whole("number of answers", len(self.answers), least=2)
        _check(self.truth, len(self.answers), self.adjacency)

    @staticmethod
    def calibrated(answers: tuple[Any, ...], *, epsilon: float, adjacency: Adjacency) -> "KaryResponse":
        """As truthful as ε allows: exp(ε)/(exp(ε) + k − 1) under replace-one."""
        check_categories("answers", answers)
        whole("number of answers", len(answers), least=2)
        return KaryResponse(answers, _most_truth(epsilon, len(answers), adjacency), adjacency)

    @property
    def event(self) -> events.Event:
        return events.RandomizedResponse(self.truth, len(self.answers))

    @property
    def lie(self) -> float:
        """The probability of each of the other answers."""
        return (1 - self.truth) / (len(self.answers) - 1)

    def release(self, data: object, noise: NoiseSource = SECURE) -> list[Any]:
        """Everybody's randomised answer. A record that is none of the answers gets a random one."""
        responses = _randomize(indices(data, self._positions), len(self.answers), self.truth, noise)
        return [self.answers[position] for position in responses]

    def estimate(self, responses: Sequence[Any]) -> Floats:
        """The unbiased estimate of each answer's fraction, in the order of ``answers``.

        It may leave [0, 1].
        """
        counts = self._counts(responses)
        return np.asarray((counts / counts.sum() - self.lie) / (self.truth - self.lie))

    def variance(self, *, fractions: Sequence[float], people: int) -> Floats:
        """The variance of each estimate, if these are the true fractions in a population."""
        said = self.lie + (self.truth - self.lie) * self._shares(fractions)
        return np.asarray(said * (1 - said) / (whole("people", people) * (self.truth - self.lie) ** 2))

    def interval(self, responses: Sequence[Any], *, confidence: float) -> tuple[Interval, ...]:
        """Intervals that cover all true fractions at once: Clopper & Pearson's at (1 − confidence)/k each."""
        counts = self._counts(responses)
        failure = (1 - open_fraction("confidence", confidence)) / len(self.answers)
        said = [_clopper_pearson(int(count), int(counts.sum()), failure) for count in counts]
        return tuple(
            Interval(*(_clip((end - self.lie) / (self.truth - self.lie)) for end in interval))
            for interval in said
        )

    def error(self, *, people: int, confidence: float) -> float:
        """With this probability no fraction is further off (Hoeffding 1963, and a union bound)."""
        failure = (1 - open_fraction("confidence", confidence)) / len(self.answers)
        return math.sqrt(math.log(2 / failure) / (2 * whole("people", people))) / (self.truth - self.lie)

    def posterior(self, answer: object, *, prior: Sequence[float]) -> Floats:
        """The probability of each true answer, given somebody's response and the prior probabilities."""
        position = indices([answer], self._positions)[0]
        if position < 0:
            raise InvalidArgument(
                f"'answer' must be one of the answers, got another, of type {type(answer).__name__}. "
                f"Give what the person said."
            )
        likelihood = np.full(len(self.answers), self.lie)
        likelihood[position] = self.truth
        joint = self._shares(prior) * likelihood
        return np.asarray(joint / joint.sum())

    def _counts(self, responses: Sequence[Any]) -> NDArray[np.int64]:
        positions = indices(responses, self._positions)
        if positions.size == 0 or (positions < 0).any():
            raise InvalidArgument(
                "'responses' must hold at least one response, each one of the answers, and does not. "
                "Give what release returned."
            )
        return np.bincount(positions, minlength=len(self.answers)).astype(np.int64)

    def _shares(self, values: Sequence[float]) -> Floats:
        shares = np.asarray(values, dtype=np.float64)
        if shares.shape != (len(self.answers),) or not (shares >= 0).all() or abs(shares.sum() - 1) > 1e-9:
            raise InvalidArgument(
                f"There must be one probability for each of the {len(self.answers)} answers, and they must "
                f"add up to 1, got {format_value(values)}. Give them in the order of 'answers'."
            )
        return shares

    @cached_property
    def _positions(self) -> dict[Any, int]:
        return {value: position for position, value in enumerate(self.answers)}


def _check(truth: float, categories: int, adjacency: Adjacency) -> None:
    open_fraction("truth", truth)
    if truth * categories <= 1:
        raise InvalidArgument(
            f"'truth' must be above 1/{categories}, got {truth!r}, because an answer that is true only by "
            f"chance tells nothing. Tell the truth more often."
        )
    _check_adjacency(adjacency)


def _check_adjacency(adjacency: Adjacency) -> None:
    if not isinstance(check_adjacency(adjacency), (ReplaceOne, ZeroOut)):
        raise NotProved(
            "Randomised response shows that a person answered, so it has no guarantee under add-remove "
            "adjacency. Use ReplaceOne(), or ZeroOut(), where a missing answer is a random one."
        )


def _most_truth(epsilon: float, categories: int, adjacency: Adjacency) -> float:
    """The largest ``truth`` that keeps to ε, less a few units in the last place."""
    _check_adjacency(adjacency)
    other = math.exp(-positive("epsilon", epsilon))
    if other == 0:
        return _refuse(epsilon)
    if isinstance(adjacency, ReplaceOne):
        truth = 1 / (1 + (categories - 1) * other)
    else:
        truth = min(1 / (categories * other), 1 - (categories - 1) * other / categories)
    return 1 / categories + (truth - 1 / categories) * (1 - 1e-14) if truth < 1 else _refuse(epsilon)


def _refuse(epsilon: float) -> float:
    raise InvalidArgument(
        f"'epsilon' must leave room for a lie, got {epsilon!r}, at which the truth has probability 1 in "
        f"float64. Ask for an ε below 30."
    )


def _randomize(
    answers: NDArray[np.int64], categories: int, truth: float, noise: NoiseSource
) -> NDArray[np.int64]:
    """Each answer with probability ``truth``, else one of the others; −1 becomes a random answer."""
    honest = bernoulli(truth, answers.size, noise)
    other = (answers + 1 + uniform_integers(categories - 1, answers.size, noise)) % categories
    anything = uniform_integers(categories, answers.size, noise)
    return np.asarray(np.where(answers < 0, anything, np.where(honest, answers, other)))


def _count_yeses(responses: Sequence[bool] | NDArray[np.bool_]) -> tuple[int, int]:
    answers = indices(responses, {False: 0, True: 1})
    if answers.size == 0 or (answers < 0).any():
        raise InvalidArgument(
            "'responses' must hold at least one response, each True or False, and does not. "
            "Give what release returned."
        )
    return int(answers.sum()), int(answers.size)


def _clopper_pearson(hits: int, trials: int, failure: float) -> Interval:
    """Clopper & Pearson 1934: covers a probability with at least 1 − failure, whatever it is."""
    lower = float(betaincinv(hits, trials - hits + 1, failure / 2)) if hits > 0 else 0.0
    upper = float(betaincinv(hits + 1, trials - hits, 1 - failure / 2)) if hits < trials else 1.0
    return Interval(lower, upper)


def _clip(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _share(name: str, value: float) -> float:
    return value if value == 0 else fraction(name, value)
