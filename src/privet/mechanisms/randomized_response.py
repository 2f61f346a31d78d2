"""Randomised response: everybody randomises their own answer, so nobody needs to be trusted.

Each person tells the truth with probability ``truth``, and otherwise gives one of the other answers. What one person
sends is deniable; what is estimated from many is unbiased. The noise is in the answers already, so the estimators
here are post-processing and cost nothing.
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
from privet.arguments import fraction, open_fraction, positive, shown, whole
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

    *Guarantee*: ε = ln(truth/(1 − truth)) under replace-one. Under zero-out, where a missing answer is a random one,
    it is less. Under add-remove there is none: that somebody answered is seen.

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
        """Everybody's randomised answer; whoever gave neither yes nor no answers at random."""
        answers = indices(data, {False: 0, True: 1})
        return _randomized(answers, 2, self.truth, noise).astype(np.bool_)

    def estimate(self, responses: Sequence[bool] | NDArray[np.bool_]) -> float:
        """The unbiased estimate of the fraction of true yeses: 2·mean − ½ for two coins. It may leave [0, 1]."""
        yes, people = _yeses(responses)
        return self._mapped(yes / people)

    def variance(self, *, yes: float, people: int) -> float:
        """Of the estimate, when a fraction ``yes`` of a population would truly say yes and ``people`` are asked."""
        said = _share("yes", yes) * self.truth + (1 - yes) * (1 - self.truth)
        return said * (1 - said) / (whole("people", people) * (2 * self.truth - 1) ** 2)

    def interval(self, responses: Sequence[bool] | NDArray[np.bool_], *, confidence: float) -> Interval:
        """An exact interval for the true fraction: Clopper & Pearson's for what was said, mapped back.

        For people drawn from a population it covers with at least this probability. For the fraction among the people
        who answered it is wider than need be, because their answers vary less.
        """
        yes, people = _yeses(responses)
        found = _clopper_pearson(yes, people, 1 - open_fraction("confidence", confidence))
        return Interval(_inside(self._mapped(found.lower)), _inside(self._mapped(found.upper)))

    def error(self, *, people: int, confidence: float) -> float:
        """With this probability the estimate is no further off, whatever the truth (Hoeffding 1963)."""
        failure = 1 - open_fraction("confidence", confidence)
        return math.sqrt(math.log(2 / failure) / (2 * whole("people", people))) / (2 * self.truth - 1)

    def posterior(self, answer: bool, *, prior: float) -> float:
        """What to believe of somebody's true yes, who was thought to say it with probability ``prior``."""
        if not isinstance(answer, (bool, np.bool_)):
            raise InvalidArgument(
                f"'answer' must be True or False, got another, of type {type(answer).__name__}. Give what the person said."
            )
        open_fraction("prior", prior)
        if_yes, if_no = (self.truth, 1 - self.truth) if answer else (1 - self.truth, self.truth)
        return prior * if_yes / (prior * if_yes + (1 - prior) * if_no)

    def _mapped(self, said: float) -> float:
        return (said - (1 - self.truth)) / (2 * self.truth - 1)


@final
@dataclass(frozen=True)
class KaryResponse(Mechanism[list[Any]]):
    """One of k public answers: the truth with probability ``truth``, above 1/k, else one of the others at random.

    *Guarantee*: ε = ln(truth (k − 1)/(1 − truth)) under replace-one; less under zero-out; none under add-remove.

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
        """Everybody's randomised answer; whoever gave none of the answers gives one at random."""
        drawn = _randomized(indices(data, self._places), len(self.answers), self.truth, noise)
        return [self.answers[place] for place in drawn]

    def estimate(self, responses: Sequence[Any]) -> Floats:
        """The unbiased estimate of each answer's fraction, in the order of ``answers``. It may leave [0, 1]."""
        counts = self._counts(responses)
        return np.asarray((counts / counts.sum() - self.lie) / (self.truth - self.lie))

    def variance(self, *, fractions: Sequence[float], people: int) -> Floats:
        """Of each estimate, when these are the true fractions in a population and ``people`` are asked."""
        said = self.lie + (self.truth - self.lie) * self._shares(fractions)
        return np.asarray(said * (1 - said) / (whole("people", people) * (self.truth - self.lie) ** 2))

    def interval(self, responses: Sequence[Any], *, confidence: float) -> tuple[Interval, ...]:
        """Intervals that cover every answer's true fraction together: Clopper & Pearson's, each at (1 − confidence)/k."""
        counts = self._counts(responses)
        failure = (1 - open_fraction("confidence", confidence)) / len(self.answers)
        found = [_clopper_pearson(int(count), int(counts.sum()), failure) for count in counts]
        return tuple(
            Interval(*(_inside((end - self.lie) / (self.truth - self.lie)) for end in one)) for one in found
        )

    def error(self, *, people: int, confidence: float) -> float:
        """With this probability no fraction is further off, whatever the truth (Hoeffding 1963, and a union bound)."""
        failure = (1 - open_fraction("confidence", confidence)) / len(self.answers)
        return math.sqrt(math.log(2 / failure) / (2 * whole("people", people))) / (self.truth - self.lie)

    def posterior(self, answer: object, *, prior: Sequence[float]) -> Floats:
        """What to believe of somebody's true answer, given what they said and what was thought of each before."""
        place = indices([answer], self._places)[0]
        if place < 0:
            raise InvalidArgument(
                f"'answer' must be one of the answers, got {shown(answer)}. Give what the person said."
            )
        likelihood = np.full(len(self.answers), self.lie)
        likelihood[place] = self.truth
        joint = self._shares(prior) * likelihood
        return np.asarray(joint / joint.sum())

    def _counts(self, responses: Sequence[Any]) -> NDArray[np.int64]:
        places = indices(responses, self._places)
        if places.size == 0 or (places < 0).any():
            raise InvalidArgument(
                "'responses' must hold at least one response, each one of the answers, and does not. "
                "Give what release returned."
            )
        return np.bincount(places, minlength=len(self.answers)).astype(np.int64)

    def _shares(self, values: Sequence[float]) -> Floats:
        shares = np.asarray(values, dtype=np.float64)
        if shares.shape != (len(self.answers),) or not (shares >= 0).all() or abs(shares.sum() - 1) > 1e-9:
            raise InvalidArgument(
                f"There must be one probability for each of the {len(self.answers)} answers, and they must add up to "
                f"1, got {shown(values)}. Give them in the order of 'answers'."
            )
        return shares

    @cached_property
    def _places(self) -> dict[Any, int]:
        return {value: place for place, value in enumerate(self.answers)}


def _check(truth: float, categories: int, adjacency: Adjacency) -> None:
    open_fraction("truth", truth)
    if truth * categories <= 1:
        raise InvalidArgument(
            f"'truth' must be above 1/{categories}, got {truth!r}, because an answer that is no more often true than "
            f"by chance tells nothing. Tell the truth more often."
        )
    _check_relation(adjacency)


def _check_relation(adjacency: Adjacency) -> None:
    if not isinstance(check_adjacency(adjacency), (ReplaceOne, ZeroOut)):
        raise NotProved(
            "Randomised response shows that a person answered, so it has no guarantee under add-remove adjacency. "
            "Use ReplaceOne(), or ZeroOut(), where a missing answer is a random one."
        )


def _most_truth(epsilon: float, categories: int, adjacency: Adjacency) -> float:
    """The largest float ``truth`` that keeps ε, less a few last digits."""
    _check_relation(adjacency)
    other = math.exp(-positive("epsilon", epsilon))
    if isinstance(adjacency, ReplaceOne):
        truth = 1 / (1 + (categories - 1) * other)
    else:
        truth = min(1 / (categories * other), 1 - (categories - 1) * other / categories)
    return 1 / categories + (truth - 1 / categories) * (1 - 1e-14) if truth < 1 else _refused(epsilon)


def _refused(epsilon: float) -> float:
    raise InvalidArgument(
        f"'epsilon' must leave room for a lie, got {epsilon!r}, at which the truth has probability 1 in float64. "
        f"Ask for an ε below 30."
    )


def _randomized(
    answers: NDArray[np.int64], categories: int, truth: float, noise: NoiseSource
) -> NDArray[np.int64]:
    """Each answer kept with probability ``truth`` and else moved to one of the others; −1 becomes any."""
    honest = bernoulli(truth, answers.size, noise)
    moved = (answers + 1 + uniform_integers(categories - 1, answers.size, noise)) % categories
    anything = uniform_integers(categories, answers.size, noise)
    return np.asarray(np.where(answers < 0, anything, np.where(honest, answers, moved)))


def _yeses(responses: Sequence[bool] | NDArray[np.bool_]) -> tuple[int, int]:
    places = indices(responses, {False: 0, True: 1})
    if places.size == 0 or (places < 0).any():
        raise InvalidArgument(
            "'responses' must hold at least one response, each True or False, and does not. "
            "Give what release returned."
        )
    return int(places.sum()), int(places.size)


def _clopper_pearson(hits: int, trials: int, failure: float) -> Interval:
    """Clopper & Pearson 1934: covers a probability with at least 1 − failure, whatever it is."""
    lower = float(betaincinv(hits, trials - hits + 1, failure / 2)) if hits > 0 else 0.0
    upper = float(betaincinv(hits + 1, trials - hits, 1 - failure / 2)) if hits < trials else 1.0
    return Interval(lower, upper)


def _inside(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _share(name: str, value: float) -> float:
    return value if value == 0 else fraction(name, value)
