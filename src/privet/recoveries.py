"""The recovery game: what an adversary wants of each target, what an attack recovered, and hit or miss.

Membership is one bit; an attack that guesses it gives ``Scores``. Every other attack recovers something: a
value, a face, a sentence, a picture from a gradient. It gives ``Recoveries``. The rules are those of the
membership game:

- an attack is shown the public side of each target and a view, never the secret and never the coin;
- what counts as a hit is a ``Criterion``, fixed before anything is recovered;
- the truth and the coin are joined to the answer afterwards, by ``RecoveryGame.judge``.

A hit by itself is no leak. The share of hits among targets that are in the data is compared with a
*baseline*: the same attack's share among targets that the coin left out, or, where all targets were in, that
of the best guess from public knowledge alone (``blind``). ``privet.auditing.measure_recoveries`` does that.

>>> secrets, members = np.array([1, 0, 1, 1]), np.array([True, True, False, False])
>>> game = RecoveryGame(secrets, members, criterion=Criterion.exactly())
>>> adversary = Adversary(sees="the confidences", knows="all other columns", wants="the genotype")
>>> game.judge(np.array([1, 0, 0, 1]), "guess the genotype", adversary=adversary)
Recoveries('guess the genotype', 2 of 2 in the data hit, 1 of 2 left out)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import at_least, whole
from privet.errors import InvalidArgument
from privet.exhibits import Exhibit, Picture, Shown
from privet.public_calls import check_public_calls
from privet.scores import Bits, Scores
from privet.views import Adversary, Numbers, Rows

__all__ = ["Criterion", "Exhibit", "Picture", "Recoveries", "RecoveryGame", "Shown"]

_SHOWN = 8  # exhibits of an attack, unless told otherwise


@final
@dataclass(frozen=True, eq=False)
class Criterion:
    """When a recovered thing counts as a hit. It is fixed before anything is recovered.

    ``words`` say it in a report: "the value is exactly right", "SSIM is at least 0.5", "first of 40
    candidates". ``distance(recovered, truths)`` gives one number for each target, smaller = nearer; a rank is
    a distance, and so is the negative of a likeness. A hit has a distance of at most ``at_most``. NaN is a
    miss.
    """

    words: str
    distance: Callable[[Rows, Rows], Numbers]
    at_most: float

    def __post_init__(self) -> None:
        if np.isnan(self.at_most):
            raise InvalidArgument("'at_most' must be a number, got NaN. Give the largest distance of a hit.")

    @classmethod
    def exactly(cls, words: str = "the value is exactly right") -> "Criterion":
        """A hit is equal to the truth in every entry."""
        return cls(words, _differs, 0.0)

    @classmethod
    def within(cls, tolerance: float, words: str | None = None) -> "Criterion":
        """A hit differs from the truth by at most ``tolerance``, in every entry.

        >>> criterion = Criterion.within(5.0)
        >>> criterion.words
        'within 5 of the truth'
        >>> criterion.distance(np.array([40.0, 30.0]), np.array([44.0, 36.0])).tolist()
        [4.0, 6.0]
        """
        at_least("tolerance", tolerance, 0)
        return cls(words or f"within {tolerance:g} of the truth", _farthest, tolerance)

    def hits(self, distances: Numbers) -> Bits:
        """Which distances are hits."""
        return np.asarray(distances, dtype=np.float64) <= self.at_most


@final
@dataclass(frozen=True, eq=False)
class Recoveries:
    """What an attack recovered, joined with the truth and the coin: a hit or a miss for each target.

    ``members`` is the coin; None where every target was in the data. ``blind_hits`` are those of the best
    guess from public knowledge alone. ``confidence`` is the attack's own, higher = surer. ``candidates`` = k
    says that each secret was drawn independently and uniformly from k public candidates, of which an answer
    hits one at most. ``claims`` says that a target who is out is hit by any claim at all, and one who is in
    only by the right one. Then fewer hits among those who are in are no sign of a leak.
    """

    attack: str
    adversary: Adversary
    criterion: str
    hits: Bits
    members: Bits | None = None
    blind_hits: Bits | None = None
    distances: Numbers | None = None
    blind_distances: Numbers | None = None
    confidence: Numbers | None = None
    groups: NDArray[np.str_] | None = None
    candidates: int | None = None
    exhibits: tuple[Exhibit, ...] = field(default=(), repr=False)
    claims: bool = False

    def __post_init__(self) -> None:
        hits = _to_bits("hits", self.hits)
        if hits.ndim != 1 or len(hits) == 0:
            raise InvalidArgument(
                f"'hits' must be a hit or a miss for each target, got an array of shape {hits.shape}. Give "
                f"one axis with at least one target."
            )
        object.__setattr__(self, "hits", hits)
        for name, convert in _CONVERSIONS.items():
            values = getattr(self, name)
            if values is not None:
                object.__setattr__(self, name, _one_for_each(name, convert(name, values), len(hits)))
        if self.confidence is not None and np.isnan(self.confidence).any():
            raise InvalidArgument(
                "'confidence' must be numbers, got NaN among them. Give the lowest confidence where the "
                "attack has none."
            )
        _require_baseline(self.members, self.blind_hits, self.candidates)

    def __len__(self) -> int:
        return len(self.hits)

    def __repr__(self) -> str:
        if self.members is None:
            return f"Recoveries({self.attack!r}, {int(self.hits.sum())} of {len(self)} hit, all in the data)"
        inside, outside = self.hits[self.members], self.hits[~self.members]
        return (
            f"Recoveries({self.attack!r}, {int(inside.sum())} of {len(inside)} in the data hit, "
            f"{int(outside.sum())} of {len(outside)} left out)"
        )

    @property
    def inside(self) -> Bits:
        """Which targets were in the data."""
        return np.ones(len(self), dtype=np.bool_) if self.members is None else self.members

    def take(self, which: NDArray[np.intp] | Bits) -> "Recoveries":
        """The recoveries of some of the targets, without exhibits."""
        arrays = {name: getattr(self, name) for name in _CONVERSIONS}
        parts: dict[str, Any] = {
            name: None if values is None else values[which] for name, values in arrays.items()
        }
        return replace(self, hits=self.hits[which], exhibits=(), **parts)

    def to_scores(self) -> Scores:
        """Scores of the coin: a hit says "in the data", a miss "left out", louder the surer the attack was.

        Hits come above misses. Among hits the surer ones are higher; among misses the surer ones are lower: a
        target of which the attack was sure, and wrong, was probably left out. Where the confidence is that of
        a hit among targets in the data, and the same for targets that are out, this is the order of the
        likelihood ratio of the coin, so audits that abstain take the right targets first. Without a
        confidence all hits are equal.

        >>> adversary = Adversary(sees="", knows="", wants="")
        >>> hits, coin, sure = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [9, 2, 2, 9]])
        >>> recoveries = Recoveries("a", adversary, "exact", hits, coin, confidence=sure)
        >>> recoveries.to_scores().values.tolist()
        [2.0, 1.0, -1.0, -2.0]
        """
        if self.members is None:
            raise InvalidArgument(
                "'members' must be known to turn hits into scores of the coin, got None. Leave some targets "
                "out of the data by a fair coin each, and say which."
            )
        sure = np.ones(len(self)) if self.confidence is None else _ranks(self.confidence)
        return Scores(np.where(self.hits, sure, -sure), self.members, self.attack)


@final
@dataclass(frozen=True, eq=False)
class RecoveryGame:
    """Targets, what the adversary wants of each, and the coin that decided whether it was in the data.

    ``secrets`` is the truth of each target, on its first axis; no attack sees it. ``members`` is the coin, or
    None where every target was in the data: then the baseline is ``blind``, the best guess of each secret
    from public knowledge alone. With both, the coin is the baseline, and the blind guess is shown beside it.
    The blind guess must be made without the targets' secrets: fit it on other people.

    ``candidates`` = k promises that each secret was drawn independently and uniformly from k public
    candidates, of which an answer hits one at most (planted secrets, the values of randomised response). Then
    no blind guess is right more often than 1/k, and an audit can bound ε without a coin.
    """

    secrets: Rows
    members: Bits | None = None
    blind: Rows | None = None
    criterion: Criterion = field(default_factory=Criterion.exactly)
    groups: NDArray[np.str_] | None = None
    candidates: int | None = None

    def __post_init__(self) -> None:
        secrets = np.asarray(self.secrets)
        if secrets.ndim == 0 or len(secrets) == 0:
            raise InvalidArgument(
                "'secrets' must hold the truth of at least one target, got none. Give one row for each "
                "target."
            )
        object.__setattr__(self, "secrets", secrets)
        if self.members is not None:
            members = _one_for_each("members", _to_bits("members", self.members), len(secrets))
            object.__setattr__(self, "members", members)
        if self.blind is not None:
            object.__setattr__(self, "blind", _require_rows("blind", self.blind, len(secrets)))
        if self.groups is not None:
            groups = _one_for_each("groups", np.asarray(self.groups).astype(str), len(secrets))
            object.__setattr__(self, "groups", groups)
        _require_baseline(self.members, self.blind, self.candidates)

    def __len__(self) -> int:
        return len(self.secrets)

    def __repr__(self) -> str:
        inside = len(self) if self.members is None else int(self.members.sum())
        return f"RecoveryGame({inside} targets in the data, {len(self) - inside} left out)"

    def judge(
        self,
        recovered: Rows,
        attack: str,
        *,
        adversary: Adversary,
        confidence: Numbers | None = None,
        draw: Callable[[Any], Shown] | None = None,
        shown: int = _SHOWN,
    ) -> Recoveries:
        """Join what an attack recovered with the truth and the coin.

        ``recovered`` has one row for each target. ``draw`` turns a row (of secrets, recovered things and
        blind guesses alike) into a picture or a line of text; with it, ``shown`` targets become exhibits.
        They are taken at even steps from the nearest to the farthest, so that no lucky ones are picked.
        """
        recovered = _require_rows("recovered", recovered, len(self))
        distances = self._measure(recovered)
        blind = None if self.blind is None else self._measure(self.blind)
        recoveries = Recoveries(
            attack,
            adversary,
            self.criterion.words,
            self.criterion.hits(distances),
            self.members,
            None if blind is None else self.criterion.hits(blind),
            distances,
            blind,
            confidence,
            self.groups,
            self.candidates,
        )
        if draw is None:
            return recoveries
        return replace(recoveries, exhibits=tuple(self._exhibits(recovered, recoveries, draw, shown)))

    def _measure(self, answers: Rows) -> Numbers:
        distances = _to_floats("distance", self.criterion.distance(answers, self.secrets))
        if distances.shape != (len(self),):
            raise InvalidArgument(
                f"'distance' must give one number for each of {len(self)} targets, got an array of shape "
                f"{distances.shape}. Let the criterion's function reduce every axis but the first."
            )
        return distances

    def _exhibits(
        self, recovered: Rows, recoveries: Recoveries, draw: Callable[[Any], Shown], shown: int
    ) -> Sequence[Exhibit]:
        distances = np.zeros(len(self)) if recoveries.distances is None else recoveries.distances
        inside = np.flatnonzero(recoveries.inside)
        ordered = inside[np.argsort(distances[inside], kind="stable")]  # NaN comes last
        count = min(whole("shown", shown, least=0), len(ordered))
        places = np.unique(np.linspace(0, len(ordered) - 1, count).round().astype(np.intp))
        return [
            Exhibit(
                truth=draw(self.secrets[target]),
                recovered=draw(recovered[target]),
                blind=None if self.blind is None else draw(self.blind[target]),
                caption=(
                    f"{'hit' if recoveries.hits[target] else 'miss'}; number {place + 1} of {len(ordered)} "
                    f"by nearness"
                ),
                member=None if self.members is None else bool(self.members[target]),
            )
            for place, target in ((int(place), int(ordered[place])) for place in places)
        ]


def _require_baseline(members: Bits | None, blind: Rows | None, candidates: int | None) -> None:
    """Refuse targets without a comparison: no coin that left some of them out, and no blind guess."""
    if candidates is not None:
        whole("candidates", candidates, least=2)
    if members is None:
        if blind is None and candidates is None:
            raise InvalidArgument(
                "'members' or the blind guesses must be given, got neither: hits without a baseline say "
                "nothing. Leave some targets out of the data by a coin, or give the best guess of each "
                "secret from public knowledge alone."
            )
    elif not members.any() or members.all():
        missing = "in the data" if not members.any() else "left out"
        raise InvalidArgument(
            f"'members' must hold both sides, got no target that is {missing}. Give None and blind guesses "
            f"where all targets were in the data."
        )


def _differs(recovered: Rows, truths: Rows) -> Numbers:
    _require_alike(recovered, truths)
    answer: Numbers = (recovered != truths).reshape(len(truths), -1).any(axis=1).astype(np.float64)
    return answer


def _farthest(recovered: Rows, truths: Rows) -> Numbers:
    _require_alike(recovered, truths)
    gaps = np.abs(_to_floats("recovered", recovered) - _to_floats("secrets", truths))
    answer: Numbers = gaps.reshape(len(truths), -1).max(axis=1, initial=0.0)
    return answer


def _require_alike(recovered: Rows, truths: Rows) -> None:
    if recovered.shape != truths.shape:
        raise InvalidArgument(
            f"'recovered' must have the shape of the secrets, {truths.shape}, got {recovered.shape}. Give "
            f"one answer of the same form for each target."
        )


def _ranks(values: Numbers) -> Numbers:
    """1 for the smallest value, 2 for the next larger one …; equal values have equal ranks."""
    answer: Numbers = np.unique(values, return_inverse=True)[1].astype(np.float64) + 1.0
    return answer


def _require_rows(name: str, values: Rows, count: int) -> Rows:
    array = np.asarray(values)
    if array.ndim == 0 or len(array) != count:
        raise InvalidArgument(
            f"'{name}' must have one row for each of {count} targets, got an array of shape {array.shape}. "
            f"Give an answer for every target, in the order of the secrets."
        )
    return array


def _one_for_each(name: str, values: NDArray[Any], count: int) -> NDArray[Any]:
    if values.shape != (count,):
        raise InvalidArgument(
            f"'{name}' must have one entry for each of {count} targets, got an array of shape "
            f"{values.shape}. Give one axis of that length."
        )
    return values


def _to_bits(name: str, values: object) -> Bits:
    array = np.asarray(values)
    if array.dtype != np.bool_ and (array.dtype.kind not in "iuf" or not np.isin(array, (0, 1)).all()):
        raise InvalidArgument(
            f"'{name}' must be True or False for each target, got other values. Give booleans."
        )
    return array.astype(np.bool_, copy=False)


def _to_floats(name: str, values: object) -> Numbers:
    try:
        return np.asarray(values).astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"'{name}' must be numbers, got something else. Give one number for each target."
        ) from None


def _to_names(name: str, values: object) -> NDArray[np.str_]:
    del name
    return np.asarray(values).astype(str)


_CONVERSIONS: dict[str, Callable[[str, object], NDArray[Any]]] = {
    "members": _to_bits,
    "blind_hits": _to_bits,
    "distances": _to_floats,
    "blind_distances": _to_floats,
    "confidence": _to_floats,
    "groups": _to_names,
}

check_public_calls(__name__)
