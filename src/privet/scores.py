"""The membership game: records that an attack judges, its scores, and the signals of its reference models.

An attack sees ``Records`` without the coin that decided who is a member. The coin is joined to its answer
afterwards, in ``Scores``. So an attack cannot be tuned on the membership that it must guess.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from privet.data_frames import to_data_frame
from privet.errors import InvalidArgument
from privet.frame_columns import FrameColumns
from privet.public_calls import check_public_calls
from privet.record_hashes import Hashes, hash_records
from privet.views import Labels, Numbers, Rows

__all__ = ["TEMPERATURES", "Bits", "Challenge", "Records", "References", "Scores"]

Bits = NDArray[np.bool_]
_T = TypeVar("_T", bound=np.generic)
TEMPERATURES = (2.0, 3.0, 4.0)  # at which a study also stores φ, besides 1


@final
@dataclass(frozen=True, eq=False)
class Records:
    """Records to judge: inputs, their true labels where they are known, and a public group of each where
    there is one.

    Several inputs of a model are fields of one array (``record_inputs.gather_inputs``). Of a data frame
    ``columns`` remembers names and types.
    """

    inputs: Rows
    labels: Labels | None = None
    groups: NDArray[np.str_] | None = None
    columns: FrameColumns | None = None

    def __post_init__(self) -> None:
        if self.columns is None:
            object.__setattr__(self, "columns", FrameColumns.of(self.inputs))
        object.__setattr__(self, "inputs", _to_array("inputs", self.inputs))
        if self.inputs.ndim == 0 or len(self.inputs) == 0:
            raise InvalidArgument(
                "'inputs' must hold at least one record, got none. Give one row for each record."
            )
        if self.labels is not None:
            object.__setattr__(self, "labels", _to_labels(self.labels, len(self.inputs)))
        if self.groups is not None:
            object.__setattr__(
                self,
                "groups",
                _require_one_per_record("groups", np.asarray(self.groups).astype(str), len(self.inputs)),
            )

    def __len__(self) -> int:
        return len(self.inputs)

    def __repr__(self) -> str:
        parts = [name for name in ("labels", "groups") if getattr(self, name) is not None]
        return f"Records({len(self)} of shape {self.inputs.shape[1:]}, {' and '.join(parts) or 'no labels'})"

    @cached_property
    def hashes(self) -> Hashes:
        """A hash of each record's inputs and label, which identifies it."""
        return hash_records(self.inputs, self.labels)

    @property
    def known_labels(self) -> Labels:
        """The labels; refused where there are none."""
        if self.labels is None:
            raise InvalidArgument(
                "'labels' must be given for this attack, got none. Give the true class of every record, "
                "or take an attack that does not need it (entropy, largest confidence)."
            )
        return self.labels

    def followed_by(self, others: "Records") -> "Records":
        """These records and then the others. Labels and groups are kept where both have them."""
        return Records(
            np.concatenate([self.inputs, others.inputs]),
            _concatenate(self.labels, others.labels),
            _concatenate(self.groups, others.groups),
            None if self.columns is None else self.columns.joined_with(others.columns),
        )

    def take(self, which: NDArray[np.intp] | Bits) -> "Records":
        """Some of the records, in the order asked for."""
        labels = None if self.labels is None else self.labels[which]
        groups = None if self.groups is None else self.groups[which]
        return Records(self.inputs[which], labels, groups, self.columns)


@final
@dataclass(frozen=True, eq=False)
class Scores:
    """One score for each record, higher = more likely a member, and the coin that it has to guess."""

    values: Numbers
    members: Bits
    attack: str = "scores"

    def __post_init__(self) -> None:
        values = _to_floats("values", self.values)
        if values.ndim != 1 or len(values) == 0:
            raise InvalidArgument(
                f"'values' must be one number for each record, got an array of shape {values.shape}. Give "
                f"one axis."
            )
        if np.isnan(values).any():
            raise InvalidArgument(
                "'values' must be numbers, got NaN among them. Find out what the attack could not score; "
                "give the lowest score to a record that cannot be scored."
            )
        members = _to_coins(self.members, len(values))
        if not members.any() or members.all():
            missing = "members" if not members.any() else "non-members"
            raise InvalidArgument(
                f"'members' must hold both sides, got no {missing}. Score records of both kinds."
            )
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "members", members)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        members = int(self.members.sum())
        return f"Scores({self.attack!r}, {members} members, {len(self) - members} others)"

    def to_pandas(self) -> Any:  # noqa: ANN401 - a pandas.DataFrame
        """A data frame with the columns ``score`` and ``member``, one row for each record."""
        return to_data_frame(
            {"score": score, "member": member}
            for score, member in zip(self.values.tolist(), self.members.tolist(), strict=True)
        )

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
        """From two lists: the scores of members and of others."""
        members, others = (
            np.atleast_1d(_to_floats("members", members)),
            np.atleast_1d(_to_floats("others", others)),
        )
        coin = np.repeat([True, False], [len(members), len(others)])
        return cls(np.concatenate([members, others]), coin, attack)

    def take(self, which: NDArray[np.intp] | Bits) -> "Scores":
        """The scores of some of the records."""
        return replace(self, values=self.values[which], members=self.members[which])


@final
@dataclass(frozen=True, eq=False)
class Challenge:
    """The membership game: records, and for each the coin that decided whether it was trained on."""

    records: Records
    members: Bits

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", _to_coins(self.members, len(self.records)))

    def __repr__(self) -> str:
        members = int(self.members.sum())
        return f"Challenge({members} members, {len(self.records) - members} others)"

    @classmethod
    def of(cls, members: Records, others: Records) -> "Challenge":
        """From two sets: records that were trained on, and records of the same kind that were not."""
        if (members.labels is None) != (others.labels is None) or (members.groups is None) != (
            others.groups is None
        ):
            raise InvalidArgument(
                "'members' and 'others' must both have labels (and groups) or neither, got one with and one "
                "without. A side that can be told from the other without the model is not a test of the "
                "model."
            )
        return cls(members.followed_by(others), np.repeat([True, False], [len(members), len(others)]))

    def join_coin(self, values: Numbers, attack: str) -> Scores:
        """The scores of an attack, joined with the coin."""
        return Scores(values, self.members, attack)


@final
@dataclass(frozen=True, eq=False)
class References:
    """The signals of reference (shadow) models for the records, and the records that each model was trained
    on.

    ``signals`` is models × queries × records, each φ = ln(p/(1−p)) of the true label; ``members`` is models ×
    records; ``log_confidences``, models × records × classes, is stored only where an attack needs it. Models
    are not stored. ``softened`` is φ of the same confidences at each of ``TEMPERATURES``, temperatures ×
    models × queries × records: what RMIA and BASE compare, whatever the number of classes.

    ``hashes`` identify the records in their order, so that ``align`` can put the references in the order of
    any other list of records, or of a part of them. A study sets them; ``about`` sets them for references
    made by hand.
    """

    signals: Numbers
    members: Bits
    log_confidences: Numbers | None = None
    hashes: Hashes | None = None
    softened: Numbers | None = None

    def __post_init__(self) -> None:
        # As booleans: "not" of whole numbers would be something else.
        object.__setattr__(self, "signals", _to_floats("signals", self.signals))
        object.__setattr__(self, "members", _to_bits(_to_array("members", self.members)))
        if self.signals.ndim != 3 or self.members.shape != (self.signals.shape[0], self.signals.shape[2]):
            raise InvalidArgument(
                f"'signals' must be models × queries × records and 'members' models × records, got shapes "
                f"{self.signals.shape} and {self.members.shape}. Give one bit for each model and record."
            )
        if not np.isfinite(self.signals).all():
            raise InvalidArgument(
                "'signals' must be finite, got NaN or infinity among them. Look for reference models that "
                "diverged."
            )
        if self.softened is not None:
            object.__setattr__(self, "softened", _to_floats("softened", self.softened))
            wanted = (len(TEMPERATURES), *self.signals.shape)
            if self.softened.shape != wanted or not np.isfinite(self.softened).all():
                raise InvalidArgument(
                    f"'softened' must be finite, temperatures × models × queries × records {wanted}, got "
                    f"shape {self.softened.shape}. Give what a study stored, or leave it out."
                )
        if self.hashes is not None:
            object.__setattr__(
                self, "hashes", _require_one_per_record("hashes", np.asarray(self.hashes), len(self))
            )

    def __len__(self) -> int:
        """How many records the references cover."""
        return int(self.signals.shape[2])

    def __repr__(self) -> str:
        queries = self.signals.shape[1]
        return (
            f"References({self.models} models, {queries} {'query' if queries == 1 else 'queries'}, "
            f"{len(self)} records)"
        )

    @property
    def models(self) -> int:
        """How many reference models there are."""
        return len(self.signals)

    def first(self, models: int) -> "References":
        """The same references with fewer models."""
        return self.pick_models(np.arange(self.models)[:models])

    def pick_models(self, which: NDArray[np.intp] | Bits) -> "References":
        """The same references with some of the models."""
        confidences = None if self.log_confidences is None else self.log_confidences[which]
        return replace(
            self,
            signals=self.signals[which],
            members=self.members[which],
            log_confidences=confidences,
            softened=None if self.softened is None else self.softened[:, which],
        )

    def pick_records(self, which: NDArray[np.intp] | Bits) -> "References":
        """The same references for some of the records, in the order asked for."""
        confidences = None if self.log_confidences is None else self.log_confidences[:, which]
        return References(
            self.signals[:, :, which],
            self.members[:, which],
            confidences,
            None if self.hashes is None else self.hashes[which],
            None if self.softened is None else self.softened[:, :, :, which],
        )

    def about(self, records: Records) -> "References":
        """The same references, for these records in this order."""
        if len(records) != len(self):
            raise InvalidArgument(
                f"'records' must be the {len(self)} that the references cover, got {len(records)}. "
                f"Give the records that the reference models were asked about, in the same order."
            )
        return replace(self, hashes=records.hashes)

    def align(self, records: Records) -> "References":
        """The references for these records, in this order; refused where they do not cover all of them.

        Copies of a record count as one record: a model that was trained on one copy was trained on all, and
        all copies get the same signals. References without hashes cannot be reordered; only their number is
        checked.
        """
        if self.hashes is None:
            self.about(records)
            return self
        distinct, first, inverse = np.unique(self.hashes, return_index=True, return_inverse=True)
        wanted = np.minimum(np.searchsorted(distinct, records.hashes), len(distinct) - 1)
        missing = int((distinct[wanted] != records.hashes).sum())
        if missing:
            raise InvalidArgument(
                f"'references' must cover the records that are judged, and {missing} of {len(records)} are "
                f"missing (inputs and labels are compared by content). Train reference models on these very "
                f"records, in the same types: study(recipe, records, …), or give audit a recipe."
            )
        trained = self.members
        if len(distinct) < len(self):
            any_copy = np.zeros((self.models, len(distinct)), dtype=np.bool_)
            np.logical_or.at(any_copy.T, inverse, self.members.T)
            trained = any_copy[:, inverse]
        return replace(self, members=trained).pick_records(first[wanted])


def _concatenate(first: NDArray[_T] | None, second: NDArray[_T] | None) -> NDArray[_T] | None:
    return None if first is None or second is None else np.concatenate([first, second])


def _to_array(name: str, values: object) -> NDArray[Any]:
    """As an array; refused where numpy cannot read it (rows of several lengths, a tensor with a gradient)."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError):
        raise InvalidArgument(
            f"'{name}' must be an array, got something that numpy cannot read. "
            f"Give rows of one shape; for a tensor, give tensor.detach().cpu().numpy()."
        ) from None


def _to_floats(name: str, values: object) -> Numbers:
    array = _to_array(name, values)
    try:
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"'{name}' must be numbers, got something else. Give one score for each record."
        ) from None


def _to_coins(members: object, count: int) -> Bits:
    """One coin for each record: True or False, or 1 and 0."""
    return _to_bits(_require_one_per_record("members", _to_array("members", members), count))


def _to_bits(coins: NDArray[Any]) -> Bits:
    if coins.dtype != np.bool_ and not np.isin(coins, (0, 1)).all():
        raise InvalidArgument(
            "'members' must be True or False for each record, got other values. Give the coin of each record."
        )
    return coins.astype(np.bool_, copy=False)


def _require_one_per_record(name: str, values: NDArray[_T], count: int) -> NDArray[_T]:
    if values.shape != (count,):
        raise InvalidArgument(
            f"'{name}' must have one entry for each of {count} records, got an array of shape "
            f"{values.shape}. Give one axis of that length."
        )
    return values


def _to_labels(labels: Labels, count: int) -> Labels:
    array = _to_array("labels", labels)
    if array.shape == (count, 1):  # a column, as binary models with one output are trained on
        array = array[:, 0]
    array = _require_one_per_record("labels", array, count)
    if array.dtype.kind == "O":  # a column of a data frame with mixed types
        array = _require_one_per_record("labels", _to_array("labels", array.tolist()), count)
    if array.dtype.kind == "f" and np.isfinite(array).all() and np.array_equal(array, np.floor(array)):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iub" or (len(array) and array.min() < 0):
        raise InvalidArgument(
            "'labels' must be whole numbers from 0, got something else. Number the classes as the model "
            "does, with scikit-learn by np.searchsorted(model.classes_, labels)."
        )
    return array.astype(np.int64)


check_public_calls(__name__)
