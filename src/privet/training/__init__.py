"""Private training: sample, per-example gradients, clip, noise, step; the plan derives its own event.

Names are loaded when they are first used, so that the import adds little to that of torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from privet.errors import MissingPackage
from privet.public_calls import check_public_calls

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingPackage(
        "privet.training needs the package 'torch', which is not installed. Run pip install 'privet[torch]'."
    ) from None

if TYPE_CHECKING:
    from privet.training.adapters import LoRA, last_layer, merged
    from privet.training.augmentation import Augmentation, crops_and_flips
    from privet.training.averaging import MovingAverage
    from privet.training.canaries import (
        Canaries,
        DiracGradient,
        Mislabelled,
        OutOfDistribution,
        with_canaries,
    )
    from privet.training.checkpoint import Checkpoint
    from privet.training.clipping import Adaptive, Automatic, Clip, Flat, PerLayer
    from privet.training.correlated import Banded, Independent, Tree, square_root_coefficients
    from privet.training.denoising import Denoising
    from privet.training.encoding import Encoding, Signs
    from privet.training.fixing import Fixed, fix
    from privet.training.flocks import Planted
    from privet.training.gradients import ClippedSums, CrossExample, NotFinite, per_example
    from privet.training.noise_laws import NoiseLaw, Normal, Student
    from privet.training.optimizers import CorrectedAdam
    from privet.training.plan import Plan
    from privet.training.private_loop import Lot, PrivateLoop, make_private
    from privet.training.run import Moment, Trained, train
    from privet.training.sampling_schemes import (
        CyclicSampling,
        FixedSizeSampling,
        PartSampling,
        PoissonSampling,
        ShuffledSampling,
    )
    from privet.training.workers import Alone, ProcessFailed, Together, Workers

_HOMES = {
    "Adaptive": "clipping",
    "Alone": "workers",
    "Augmentation": "augmentation",
    "Automatic": "clipping",
    "Banded": "correlated",
    "Canaries": "canaries",
    "Checkpoint": "checkpoint",
    "Clip": "clipping",
    "ClippedSums": "gradients",
    "CorrectedAdam": "optimizers",
    "CrossExample": "gradients",
    "CyclicSampling": "sampling_schemes",
    "Denoising": "denoising",
    "DiracGradient": "canaries",
    "Encoding": "encoding",
    "Fixed": "fixing",
    "FixedSizeSampling": "sampling_schemes",
    "Flat": "clipping",
    "Independent": "correlated",
    "LoRA": "adapters",
    "Lot": "private_loop",
    "Mislabelled": "canaries",
    "Moment": "run",
    "MovingAverage": "averaging",
    "NoiseLaw": "noise_laws",
    "Normal": "noise_laws",
    "NotFinite": "gradients",
    "OutOfDistribution": "canaries",
    "PartSampling": "sampling_schemes",
    "PerLayer": "clipping",
    "Plan": "plan",
    "Planted": "flocks",
    "PoissonSampling": "sampling_schemes",
    "PrivateLoop": "private_loop",
    "ProcessFailed": "workers",
    "ShuffledSampling": "sampling_schemes",
    "Signs": "encoding",
    "Student": "noise_laws",
    "Together": "workers",
    "Trained": "run",
    "Tree": "correlated",
    "Workers": "workers",
    "crops_and_flips": "augmentation",
    "fix": "fixing",
    "last_layer": "adapters",
    "make_private": "private_loop",
    "merged": "adapters",
    "per_example": "gradients",
    "square_root_coefficients": "correlated",
    "train": "run",
    "with_canaries": "canaries",
}

__all__ = [
    "Adaptive",
    "Alone",
    "Augmentation",
    "Automatic",
    "Banded",
    "Canaries",
    "Checkpoint",
    "Clip",
    "ClippedSums",
    "CorrectedAdam",
    "CrossExample",
    "CyclicSampling",
    "Denoising",
    "DiracGradient",
    "Encoding",
    "Fixed",
    "FixedSizeSampling",
    "Flat",
    "Independent",
    "LoRA",
    "Lot",
    "Mislabelled",
    "Moment",
    "MovingAverage",
    "NoiseLaw",
    "Normal",
    "NotFinite",
    "OutOfDistribution",
    "PartSampling",
    "PerLayer",
    "Plan",
    "Planted",
    "PoissonSampling",
    "PrivateLoop",
    "ProcessFailed",
    "ShuffledSampling",
    "Signs",
    "Student",
    "Together",
    "Trained",
    "Tree",
    "Workers",
    "crops_and_flips",
    "fix",
    "last_layer",
    "make_private",
    "merged",
    "per_example",
    "square_root_coefficients",
    "train",
    "with_canaries",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'privet.training' has no attribute {name!r}")
    return getattr(import_module(f"privet.training.{home}"), name)


def __dir__() -> list[str]:
    return __all__


check_public_calls(__name__)
