"""Every attack by its name, with its needs, and the function that builds it from the auditor's knowledge.

``Means`` says what is available, before anything is trained; ``Knowledge`` holds it. An attack whose needs
are not met is refused with the missing need and its fix.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from privet.attacks.membership.attack import Attack
from privet.attacks.membership.bavaria import BaVarIA, OfflineBaVarIA
from privet.attacks.membership.boundary import BoundaryDistance
from privet.attacks.membership.ensemble import Ensemble
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
from privet.attacks.membership.taught_label_only import NoiseClassifier
from privet.attacks.membership.thresholds import Confidence, Entropy, Gap, Loss, ModifiedEntropy
from privet.attacks.membership.white_box import GradientAlignment, GradientNorm, LayerClassifier, Shadow
from privet.attacks.quantities import Quantities
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
# Where shadow models tell which strength is best, there are more to choose from.
_TAUGHT_STRENGTHS, _TAUGHT_FLIPS = (0.03, 0.1, 0.2, 0.5, 1.0), (0.005, 0.01, 0.02, 0.05, 0.1)


@final
@dataclass(frozen=True, kw_only=True)
class Means:
    """What is available, or can be trained: the view, the records, and further knowledge."""

    view: LabelOnly
    records: Records
    references: bool = False
    all_confidences: bool = False
    public: bool = False
    shadows: bool = False


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Knowledge:
    """What an attack is built from. The records are there without their membership."""

    records: Records
    references: References | None = None
    public: Records | None = None
    shadows: tuple[Shadow, ...] = ()

    @property
    def known_references(self) -> References:
        """The references, which ``Means`` promised."""
        assert self.references is not None
        return self.references

    @property
    def known_public(self) -> Records:
        """The public records, which ``Means`` promised."""
        assert self.public is not None
        return self.public


@final
@dataclass(frozen=True)
class Need:
    """A requirement of an attack: what it is, how to provide it, and whether it is met."""

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
CLASSES = Need(
    "a classifier",
    "Take loss, or an attack with reference models.",
    lambda means: not isinstance(means.view, Quantities),
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
    "the confidences of reference models in all classes",
    "Study with keep_confidences=True, or give a recipe instead of ready references.",
    lambda means: means.all_confidences,
)
PUBLIC = Need(
    "public records that the model was not trained on, besides the judged ones",
    "Give public=…, or more nonmembers than members.",
    lambda means: means.public,
)
SHADOWS = Need(
    "shadow models with visible parameters",
    "Give a TorchRecipe, by which they are trained.",
    lambda means: means.shadows,
)


@final
@dataclass(frozen=True, eq=False)
class NamedAttack:
    """An attack with its name, its needs, and the function that builds it."""

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


def _noises(
    records: Records, strengths: Sequence[float] = _STRENGTHS, flips: Sequence[float] = _FLIPS
) -> tuple[Noise, ...]:
    """Bit flips for zeros and ones, else Gaussian noise in units of a feature's standard deviation.

    The unit is rounded to two digits, so that it does not depend on the order of the records.
    """
    values = np.asarray(records.inputs, dtype=np.float64).reshape(len(records), -1)
    if np.isin(values, (0.0, 1.0)).all():
        return tuple(BitFlips(rate) for rate in flips)
    unit = float(f"{np.nanmean(np.nanstd(values, axis=0)):.2g}")
    return tuple(GaussianNoise(strength * (unit or 1.0)) for strength in strengths)


_ALL_ATTACKS = (
    _target_attack("loss", Loss, LABELS, CONFIDENCES),
    _target_attack("confidence", Confidence, CLASSES, CONFIDENCES),
    _target_attack("entropy", Entropy, CLASSES, CONFIDENCES),
    _target_attack("modified-entropy", ModifiedEntropy, LABELS, CLASSES, CONFIDENCES),
    _target_attack("gap", Gap, LABELS, CLASSES),
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
    NamedAttack(
        "taught-noise",
        NoiseClassifier,
        (LABELS, NUMBERS, SHADOWS),
        lambda known: NoiseClassifier(
            known.shadows, _noises(known.records, _TAUGHT_STRENGTHS, _TAUGHT_FLIPS)
        ),
    ),
    _reference_attack("lira", LiRA),
    _reference_attack("offline-lira", OfflineLiRA),
    _reference_attack("rmia", RMIA),
    _reference_attack("offline-rmia", OfflineRMIA),
    _reference_attack("base", BASE),
    _reference_attack("offline-base", OfflineBASE),
    _reference_attack("bavaria", BaVarIA),
    _reference_attack("offline-bavaria", OfflineBaVarIA),
    _reference_attack("ensemble", Ensemble),
    _reference_attack("shokri", Shokri, CLASSES, ALL_CONFIDENCES),
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
ATTACKS: dict[str, NamedAttack] = {attack.name: attack for attack in _ALL_ATTACKS}


def find_attacks(names: Iterable[str], means: Means) -> tuple[NamedAttack, ...]:
    """The attacks with these names.

    An unknown name, or an attack whose needs are not met, is refused before anything runs.
    """
    wanted = list(names)
    if not wanted or len(set(wanted)) < len(wanted) or any(name not in ATTACKS for name in wanted):
        raise InvalidArgument(
            f"'attacks' must name some of {', '.join(ATTACKS)}, each once, got {wanted!r}. "
            f"Leave it out to run those that fit."
        )
    for name in wanted:
        missing = ATTACKS[name].missing(means)
        if missing is not None:
            raise InvalidArgument(
                f"'attacks' names {name}, which needs {missing.what}, and got none. {missing.fix}"
            )
    return tuple(ATTACKS[name] for name in wanted)
