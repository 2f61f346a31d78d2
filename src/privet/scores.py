"""What an attack is asked about, what it answers, and what its reference models told it.

The attack sees ``Records`` without the coin that decided who is a member; the coin is joined to its answer afterwards, in
``Scores``. Nothing can be tuned on the membership that is to be guessed, because it is not there.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.record_hashes import Hashes, record_hashes
from privet.views import Labels, Numbers, Rows

__all__ = ["Bits", "Challenge", "Records", "References", "Scores"]

Bits = NDArray[np.bool_]
_T = TypeVar("_T", bound=np.generic)


@final
@dataclass(frozen=True, eq=False)
class Records:
    """Records to be judged: inputs, their true labels where they are known, and a public group of each where there is one."""

    inputs: Rows
    labels: Labels | None = None
    groups: NDArray[np.str_] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", _read("inputs", self.inputs))
        if self.inputs.ndim == 0 or len(self.inputs) == 0:
            raise InvalidArgument(
                "'inputs' must hold at least one record, got none. Give one row for each record."
            )
        if self.labels is not None:
            object.__setattr__(self, "labels", _whole_labels(self.labels, len(self.inputs)))
        if self.groups is not None:
            object.__setattr__(
                self, "groups", _one_each("groups", np.asarray(self.groups).astype(str), len(self.inputs))
            )

    def __len__(self) -> int:
        return len(self.inputs)

    @cached_property
    def hashes(self) -> Hashes:
        """What identifies each record: a hash of its inputs and label."""
        return record_hashes(self.inputs, self.labels)

    @property
    def known_labels(self) -> Labels:
        """The labels, or a refusal where the attack needs them and there are none."""
        if self.labels is None:
            raise InvalidArgument(
                "'labels' must be given for this attack, got none. Give the true class of every record, "
                "or take an attack that does not need it (entropy, largest confidence)."
            )
        return self.labels

    def followed_by(self, others: "Records") -> "Records":
        """These records and then the others. Labels and groups are there where both have them."""
        labels = _joined(self.labels, others.labels)
        return Records(
            np.concatenate([self.inputs, others.inputs]), labels, _joined(self.groups, others.groups)
        )

    def take(self, which: NDArray[np.intp] | Bits) -> "Records":
        """Some of the records, in the order asked for."""
        labels = None if self.labels is None else self.labels[which]
        groups = None if self.groups is None else self.groups[which]
        return Records(self.inputs[which], labels, groups)


@final
@dataclass(frozen=True, eq=False)
class Scores:
    """One number for each record, higher = more likely a member, beside the coin that it has to guess."""

    values: Numbers
    members: Bits
    attack: str = "scores"

    def __post_init__(self) -> None:
        values = _floats("values", self.values)
        if values.ndim != 1 or len(values) == 0:
            raise InvalidArgument(
                f"'values' must be one number for each record, got an array of shape {values.shape}. Give one axis."
            )
        if np.isnan(values).any():
            raise InvalidArgument(
                "'values' must be numbers, got NaN among them. Find out what the attack could not score; "
                "a record that cannot be scored is given the lowest score, not none."
            )
        members = _coins(self.members, len(values))
        if not members.any() or members.all():
            missing = "members" if not members.any() else "non-members"
            raise InvalidArgument(
                f"'members' must hold both sides, got no {missing}. Score records of both kinds."
            )
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "members", members)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def of_members(self) -> Numbers:
        """The members' scores."""
        return self.values[self.members]

    @property
    def of_others(self) -> Numbers:
        """The scores of those who are not members."""
        return self.values[~self.members]

    @classmethod
    def of(cls, members: Numbers, others: Numbers, attack: str = "scores") -> "Scores":
        """From two lists: the scores of members, and of those who are not."""
        members, others = np.atleast_1d(_floats("members", members)), np.atleast_1d(_floats("others", others))
        coin = np.repeat([True, False], [len(members), len(others)])
        return cls(np.concatenate([members, others]), coin, attack)

    def take(self, which: NDArray[np.intp] | Bits) -> "Scores":
        """The scores of some of the records."""
        return replace(self, values=self.values[which], members=self.members[which])


@final
@dataclass(frozen=True, eq=False)
class Challenge:
    """The membership game: records, and the coin of each that decided whether it was trained on."""

    records: Records
    members: Bits

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", _coins(self.members, len(self.records)))

    @classmethod
    def of(cls, members: Records, others: Records) -> "Challenge":
        """From two sets: records that were trained on, and records of the same kind that were not."""
        if (members.labels is None) != (others.labels is None) or (members.groups is None) != (
            others.groups is None
        ):
            raise InvalidArgument(
                "'members' and 'others' must both have labels (and groups) or neither, got one with and one without. "
                "A side that can be told from the other without the model is not a test of the model."
            )
        return cls(members.followed_by(others), np.repeat([True, False], [len(members), len(others)]))

    def scored(self, values: Numbers, attack: str) -> Scores:
        """The attack's answer beside the coin."""
        return Scores(values, self.members, attack)


@final
@dataclass(frozen=True, eq=False)
class References:
    """What reference (shadow) models say of the records, and which records each of them was trained on.

    ``signals`` is models × queries × records, each φ = ln(p/(1−p)) of the true label; ``members`` is models × records;
    ``log_confidences``, models × records × classes, is kept only where an attack asks for it. Models are not kept.

    ``hashes`` identify the records in their order, so that the references can be put in the order of any other list of
    records, or of a part of them (``aligned``). A study sets them; ``about`` sets them for references made by hand.
    """

    signals: Numbers
    members: Bits
    log_confidences: Numbers | None = None
    hashes: Hashes | None = None

    def __post_init__(self) -> None:
        # Coins are made bits: of whole numbers "not" would be something else.
        object.__setattr__(self, "signals", _floats("signals", self.signals))
        object.__setattr__(self, "members", _bits(_read("members", self.members)))
        if self.signals.ndim != 3 or self.members.shape != (self.signals.shape[0], self.signals.shape[2]):
            raise InvalidArgument(
                f"'signals' must be models × queries × records and 'members' models × records, got shapes "
                f"{self.signals.shape} and {self.members.shape}. Give one bit for each model and record."
            )
        if not np.isfinite(self.signals).all():
            raise InvalidArgument(
                "'signals' must be finite, got NaN or infinity among them. Look for reference models that diverged."
            )
        if self.hashes is not None:
            object.__setattr__(self, "hashes", _one_each("hashes", np.asarray(self.hashes), len(self)))

    def __len__(self) -> int:
        """How many records they tell of."""
        return int(self.signals.shape[2])

    @property
    def models(self) -> int:
        """How many reference models there are."""
        return len(self.signals)

    def first(self, models: int) -> "References":
        """The same study with fewer models."""
        kept = None if self.log_confidences is None else self.log_confidences[:models]
        return replace(
            self, signals=self.signals[:models], members=self.members[:models], log_confidences=kept
        )

    def about(self, records: Records) -> "References":
        """The same references, which tell of these records in this order."""
        if len(records) != len(self):
            raise InvalidArgument(
                f"'records' must be the {len(self)} that the references tell of, got {len(records)}. "
                f"Give the records that the reference models were asked about, in the same order."
            )
        return replace(self, hashes=records.hashes)

    def aligned(self, records: Records) -> "References":
        """What the references say of these records, in their order; refused where they do not tell of all of them.

        A record that is there several times is one record: a model that was trained on any copy was trained on it, and all
        copies get the same answer. References without hashes cannot be put in order; only their number is checked.
        """
        if self.hashes is None:
            self.about(records)
            return self
        kinds, first, places = np.unique(self.hashes, return_index=True, return_inverse=True)
        wanted = np.minimum(np.searchsorted(kinds, records.hashes), len(kinds) - 1)
        missing = int((kinds[wanted] != records.hashes).sum())
        if missing:
            raise InvalidArgument(
                f"'references' must tell of the records that are judged, and {missing} of {len(records)} are not among "
                f"theirs (inputs and labels are compared by content). Train reference models on these very records, in "
                f"the same types: study(recipe, records, …), or give audit a recipe."
            )
        trained = self.members
        if len(kinds) < len(self):
            anywhere = np.zeros((self.models, len(kinds)), dtype=np.bool_)
            np.logical_or.at(anywhere.T, places, self.members.T)
            trained = anywhere[:, places]
        at = first[wanted]
        kept = None if self.log_confidences is None else self.log_confidences[:, at]
        return References(self.signals[:, :, at], trained[:, at], kept, records.hashes)


def _joined(first: NDArray[_T] | None, second: NDArray[_T] | None) -> NDArray[_T] | None:
    return None if first is None or second is None else np.concatenate([first, second])


def _read(name: str, values: object) -> NDArray[Any]:
    """As an array; what numpy cannot read (rows of several lengths, a tensor with a gradient) is refused."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError):
        raise InvalidArgument(
            f"'{name}' must be an array, got something that numpy cannot read. "
            f"Give rows of one shape, and of a tensor tensor.detach().cpu().numpy()."
        ) from None


def _floats(name: str, values: object) -> Numbers:
    found = _read(name, values)
    try:
        return found.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"'{name}' must be numbers, got something else. Give one score for each record."
        ) from None


def _coins(members: object, count: int) -> Bits:
    """True or False for each record, or 1 and 0; nothing else is a coin."""
    return _bits(_one_each("members", _read("members", members), count))


def _bits(coins: NDArray[Any]) -> Bits:
    if coins.dtype != np.bool_ and not np.isin(coins, (0, 1)).all():
        raise InvalidArgument(
            "'members' must be True or False for each record, got other values. Give the coin of each record."
        )
    return coins.astype(np.bool_, copy=False)


def _one_each(name: str, values: NDArray[_T], count: int) -> NDArray[_T]:
    if values.shape != (count,):
        raise InvalidArgument(
            f"'{name}' must have one entry for each of {count} records, got an array of shape {values.shape}. "
            f"Give one axis of that length."
        )
    return values


def _whole_labels(labels: Labels, count: int) -> Labels:
    found = _read("labels", labels)
    if found.shape == (count, 1):  # a column, as binary models with one output are trained on
        found = found[:, 0]
    found = _one_each("labels", found, count)
    if found.dtype.kind == "O":  # a column of a frame of several kinds
        found = _one_each("labels", _read("labels", found.tolist()), count)
    if found.dtype.kind == "f" and np.isfinite(found).all() and np.array_equal(found, np.floor(found)):
        found = found.astype(np.int64)
    if found.dtype.kind not in "iub" or (len(found) and found.min() < 0):
        raise InvalidArgument(
            "'labels' must be whole numbers from 0, got something else. Number the classes as the model does, "
            "with scikit-learn by np.searchsorted(model.classes_, labels)."
        )
    return found.astype(np.int64)


check_public_calls(__name__)
