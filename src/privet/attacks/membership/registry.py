"""Every attack by its name, with what it needs, and how it is made from what an auditor has.

``Means`` says what there is, before anything is trained; ``Knowledge`` holds it. An attack whose needs are not met is refused by
name, with what is missing and how to give it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from privet.attacks.membership.attack import Attack
from privet.attacks.membership.bavaria import BaVarIA, OfflineBaVarIA
from privet.attacks.membership.boundary import BoundaryDistance
from privet.attacks.membership.label_only import (
    AugmentationRobustness,
    BitFlips,
    GaussianNoise,
    Noise,
    NoiseRobustness,
    shift_transforms,
)
from privet.attacks.membership.likelihood_ratio import BASE, RMIA, OfflineBASE, OfflineRMIA
from privet.attacks.membership.lira import LiRA, OfflineLiRA
from privet.attacks.membership.quantile import QuantileRegression
from privet.attacks.membership.shokri import Shokri
from privet.attacks.membership.thresholds import Confidence, Entropy, Gap, Loss, ModifiedEntropy
from privet.attacks.membership.white_box import GradientAlignment, GradientNorm, LayerClassifier, Shadow
from privet.errors import InvalidArgument
from privet.scores import Records, References
from privet.views import BlackBox, LabelOnly, WhiteBox

__all__ = [
    "ALL_CONFIDENCES",
    "ATTACKS",
    "REFERENCES",
    "SHADOWS",
    "Knowledge",
    "Means",
    "NamedAttack",
    "Need",
    "find_attacks",
]

_STRENGTHS = (0.1, 0.3, 1.0)  # of Gaussian noise, in standard deviations of a feature
_FLIPS = (0.02, 0.05, 0.1)  # of the features of a record of zeros and ones


@final
@dataclass(frozen=True, kw_only=True)
class Means:
    """What an auditor has, or can have trained: what the view shows, of which records, and what an adversary knows besides."""

    view: LabelOnly
    records: Records
    references: bool = False
    all_confidences: bool = False
    public: bool = False
    shadows: bool = False


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Knowledge:
    """What an attack is made from. The records are public here: who of them is a member is not among the fields."""

    records: Records
    references: References | None = None
    public: Records | None = None
    shadows: tuple[Shadow, ...] = ()

    @property
    def known_references(self) -> References:
        """The references, which ``Means`` said there are."""
        assert self.references is not None
        return self.references

    @property
    def known_public(self) -> Records:
        """The public records, which ``Means`` said there are."""
        assert self.public is not None
        return self.public


@final
@dataclass(frozen=True)
class Need:
    """One thing that an attack cannot do without: what it is, how to give it, and whether it is there."""

    what: str
    fix: str
    met: Callable[[Means], bool]


LABELS = Need(
    "the true label of every record", "Give (inputs, labels).", lambda means: means.records.labels is not None
)
CONFIDENCES = Need(
    "a model that shows confidences",
    "Give a model with predict_proba or a torch module, or take gap.",
    lambda means: isinstance(means.view, BlackBox),
)
PARAMETERS = Need(
    "the parameters of the model",
    "Give the torch module itself.",
    lambda means: isinstance(means.view, WhiteBox),
)
NUMBERS = Need(
    "records of numbers",
    "Encode words and categories as numbers.",
    lambda means: means.records.inputs.dtype.kind in "biuf",
)
IMAGES = Need(
    "records that are images (two axes or more)",
    "Give images in their own shape, or take noise.",
    lambda means: means.records.inputs.ndim >= 3,
)
REFERENCES = Need(
    "reference models",
    "Give a recipe to train them by, or ready references, or take loss.",
    lambda means: means.references,
)
ALL_CONFIDENCES = Need(
    "what reference models say of all classes",
    "Study with keep_confidences=True, or give a recipe instead of ready references.",
    lambda means: means.all_confidences,
)
PUBLIC = Need(
    "public records that the model was not trained on, beside those that are judged",
    "Give public=…, or more nonmembers than members.",
    lambda means: means.public,
)
SHADOWS = Need(
    "shadow models whose parameters are seen",
    "Give a TorchRecipe, by which they are trained.",
    lambda means: means.shadows,
)


@final
@dataclass(frozen=True, eq=False)
class NamedAttack:
    """An attack under the name by which it is asked for."""

    name: str
    kind: type[Attack[Any]]
    needs: tuple[Need, ...]
    make: Callable[[Knowledge], Attack[Any]]

    def missing(self, means: Means) -> Need | None:
        """The first need that is not met."""
        return next((need for need in self.needs if not need.met(means)), None)


def _target_attack(name: str, kind: type[Attack[Any]], *needs: Need) -> NamedAttack:
    return NamedAttack(name, kind, needs, lambda _: kind())


def _reference_attack(name: str, kind: Callable[[References], Attack[Any]], *needs: Need) -> NamedAttack:
    assert isinstance(kind, type)
    return NamedAttack(
        name, kind, (LABELS, CONFIDENCES, REFERENCES, *needs), lambda known: kind(known.known_references)
    )


def _noises(records: Records) -> tuple[Noise, ...]:
    """Flips for zeros and ones, else Gaussian noise in units of what a feature varies by.

    The unit is rounded to two digits, so that the order in which records are added up does not move it.
    """
    values = np.asarray(records.inputs, dtype=np.float64).reshape(len(records), -1)
    if np.isin(values, (0.0, 1.0)).all():
        return tuple(BitFlips(rate) for rate in _FLIPS)
    unit = float(f"{np.nanmean(np.nanstd(values, axis=0)):.2g}")
    return tuple(GaussianNoise(strength * (unit or 1.0)) for strength in _STRENGTHS)


_EVERY = (
    _target_attack("loss", Loss, LABELS, CONFIDENCES),
    _target_attack("confidence", Confidence, CONFIDENCES),
    _target_attack("entropy", Entropy, CONFIDENCES),
    _target_attack("modified-entropy", ModifiedEntropy, LABELS, CONFIDENCES),
    _target_attack("gap", Gap, LABELS),
    NamedAttack(
        "noise", NoiseRobustness, (LABELS, NUMBERS), lambda known: NoiseRobustness(_noises(known.records))
    ),
    NamedAttack(
        "augmentations",
        AugmentationRobustness,
        (LABELS, NUMBERS, IMAGES),
        lambda known: AugmentationRobustness(shift_transforms(1), _noises(known.records)),
    ),
    _target_attack("boundary", BoundaryDistance, LABELS, NUMBERS),
    _reference_attack("lira", LiRA),
    _reference_attack("offline-lira", OfflineLiRA),
    _reference_attack("rmia", RMIA),
    _reference_attack("offline-rmia", OfflineRMIA),
    _reference_attack("base", BASE),
    _reference_attack("offline-base", OfflineBASE),
    _reference_attack("bavaria", BaVarIA),
    _reference_attack("offline-bavaria", OfflineBaVarIA),
    _reference_attack("shokri", Shokri, ALL_CONFIDENCES),
    NamedAttack(
        "quantile",
        QuantileRegression,
        (LABELS, CONFIDENCES, NUMBERS, PUBLIC),
        lambda known: QuantileRegression(known.known_public),
    ),
    _target_attack("gradient-norm", GradientNorm, LABELS, PARAMETERS),
    NamedAttack(
        "gradient-alignment",
        GradientAlignment,
        (LABELS, PARAMETERS, PUBLIC),
        lambda known: GradientAlignment(known.known_public),
    ),
    NamedAttack(
        "layer-classifier",
        LayerClassifier,
        (LABELS, PARAMETERS, SHADOWS),
        lambda known: LayerClassifier(known.shadows),
    ),
)
ATTACKS: dict[str, NamedAttack] = {one.name: one for one in _EVERY}


def find_attacks(names: Iterable[str], means: Means) -> tuple[NamedAttack, ...]:
    """The attacks of these names; an unknown name, or one whose needs are not met, is refused before anything is run."""
    asked = list(names)
    if not asked or len(set(asked)) < len(asked) or any(name not in ATTACKS for name in asked):
        raise InvalidArgument(
            f"'attacks' must name some of {', '.join(ATTACKS)}, each once, got {asked!r}. "
            f"Leave it out to run those that fit."
        )
    for name in asked:
        missing = ATTACKS[name].missing(means)
        if missing is not None:
            raise InvalidArgument(
                f"'attacks' names {name}, which needs {missing.what}, and got none. {missing.fix}"
            )
    return tuple(ATTACKS[name] for name in asked)
