"""Private training: sample, per-example gradients, clip, noise, step; the plan derives its own event."""

from privet.errors import MissingPackage

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingPackage(
        "privet.training needs the package 'torch', which is not installed. Run pip install 'privet[torch]'."
    ) from None

from privet.training.augmentation import Augmentation, crops_and_flips
from privet.training.averaging import MovingAverage
from privet.training.checkpoint import Checkpoint
from privet.training.clipping import Adaptive, Automatic, Clip, Flat, PerLayer
from privet.training.correlated import Banded, Independent, Tree, square_root_coefficients
from privet.training.fixing import Fixed, fix
from privet.training.gradients import ClippedSums, CrossExample, NotFinite, per_example
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

__all__ = [
    "Adaptive",
    "Augmentation",
    "Automatic",
    "Banded",
    "Checkpoint",
    "Clip",
    "ClippedSums",
    "CorrectedAdam",
    "CrossExample",
    "CyclicSampling",
    "Fixed",
    "FixedSizeSampling",
    "Flat",
    "Independent",
    "Lot",
    "Moment",
    "MovingAverage",
    "NotFinite",
    "PartSampling",
    "PerLayer",
    "Plan",
    "PoissonSampling",
    "PrivateLoop",
    "ShuffledSampling",
    "Trained",
    "Tree",
    "crops_and_flips",
    "fix",
    "make_private",
    "per_example",
    "square_root_coefficients",
    "train",
]
