"""Private training: sample, per-example gradients, clip, noise, step; the plan derives its own event.

Names are loaded when they are first used, so that the import adds little to that of torch.
"""

from typing import TYPE_CHECKING

from privet.errors import MissingPackage
from privet.lazy_loading import load_lazily

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingPackage(
        "privet.training needs the package 'torch', which is not installed. Run pip install 'privet[torch]'."
    ) from None

if TYPE_CHECKING:
    from privet.training.canaries.canary_datasets import Planted
    from privet.training.canaries.kinds import (
        Canaries,
        DiracGradient,
        Mislabelled,
        OutOfDistribution,
        with_canaries,
    )
    from privet.training.clipping import Adaptive, Automatic, Clip, Flat, PerLayer
    from privet.training.extras.adapters import LoRA, last_layer, merged
    from privet.training.extras.augmentation import Augmentation, crops_and_flips
    from privet.training.extras.averaging import MovingAverage
    from privet.training.extras.denoising import Denoising
    from privet.training.extras.encoding import Encoding, Signs
    from privet.training.extras.module_validation import Fixed, fix
    from privet.training.extras.optimizers import CorrectedAdam
    from privet.training.loop.checkpoint import Checkpoint
    from privet.training.loop.distributed import Alone, ProcessFailed, Together, Workers
    from privet.training.loop.private_loop import Lot, PrivateLoop, make_private
    from privet.training.loop.run import Moment, Trained, train
    from privet.training.noise.correlated import (
        BandedNoise,
        IndependentNoise,
        TreeNoise,
        square_root_coefficients,
    )
    from privet.training.noise.distributions import NoiseDistribution, Normal, Student
    from privet.training.per_example import ClippedSums, CrossExample, NotFinite, per_example_loss
    from privet.training.plan import Plan
    from privet.training.sampling.schemes import (
        CyclicSampling,
        FixedSizeSampling,
        PartSampling,
        PoissonSampling,
        ShuffledSampling,
    )

_MODULES = {
    "Adaptive": "clipping",
    "Alone": "loop.distributed",
    "Augmentation": "extras.augmentation",
    "Automatic": "clipping",
    "BandedNoise": "noise.correlated",
    "Canaries": "canaries.kinds",
    "Checkpoint": "loop.checkpoint",
    "Clip": "clipping",
    "ClippedSums": "per_example",
    "CorrectedAdam": "extras.optimizers",
    "CrossExample": "per_example",
    "CyclicSampling": "sampling.schemes",
    "Denoising": "extras.denoising",
    "DiracGradient": "canaries.kinds",
    "Encoding": "extras.encoding",
    "Fixed": "extras.module_validation",
    "FixedSizeSampling": "sampling.schemes",
    "Flat": "clipping",
    "IndependentNoise": "noise.correlated",
    "LoRA": "extras.adapters",
    "Lot": "loop.private_loop",
    "Mislabelled": "canaries.kinds",
    "Moment": "loop.run",
    "MovingAverage": "extras.averaging",
    "NoiseDistribution": "noise.distributions",
    "Normal": "noise.distributions",
    "NotFinite": "per_example",
    "OutOfDistribution": "canaries.kinds",
    "PartSampling": "sampling.schemes",
    "PerLayer": "clipping",
    "Plan": "plan",
    "Planted": "canaries.canary_datasets",
    "PoissonSampling": "sampling.schemes",
    "PrivateLoop": "loop.private_loop",
    "ProcessFailed": "loop.distributed",
    "ShuffledSampling": "sampling.schemes",
    "Signs": "extras.encoding",
    "Student": "noise.distributions",
    "Together": "loop.distributed",
    "Trained": "loop.run",
    "TreeNoise": "noise.correlated",
    "Workers": "loop.distributed",
    "crops_and_flips": "extras.augmentation",
    "fix": "extras.module_validation",
    "last_layer": "extras.adapters",
    "make_private": "loop.private_loop",
    "merged": "extras.adapters",
    "per_example_loss": "per_example",
    "square_root_coefficients": "noise.correlated",
    "train": "loop.run",
    "with_canaries": "canaries.kinds",
}

__all__ = [
    "Adaptive",
    "Alone",
    "Augmentation",
    "Automatic",
    "BandedNoise",
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
    "IndependentNoise",
    "LoRA",
    "Lot",
    "Mislabelled",
    "Moment",
    "MovingAverage",
    "NoiseDistribution",
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
    "TreeNoise",
    "Workers",
    "crops_and_flips",
    "fix",
    "last_layer",
    "make_private",
    "merged",
    "per_example_loss",
    "square_root_coefficients",
    "train",
    "with_canaries",
]


__getattr__, __dir__ = load_lazily(__name__, _MODULES)
