"""Private training: draw a lot, clip per-example gradients, add noise, step. The plan derives its own event.

``train`` does it all, and ``make_private`` is for your own loop. ``loop`` has the training loop, ``sampling``
draws lots, ``per_example`` sums clipped gradients, ``noise`` adds noise, ``canaries`` are for audits, and
``extras`` are options. ``plan`` has the plan of a run, and ``clipping`` the clipping rules.

Names are loaded when they are first used, so that the import adds little to that of torch.
"""

from typing import TYPE_CHECKING

from privet.errors import MissingPackage
from privet.lazy_loading import load_lazily
from privet.public_calls import check_public_calls

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingPackage(
        "privet.training needs the package 'torch', which is not installed. Run pip install 'privet[torch]'."
    ) from None

if TYPE_CHECKING:
    from privet.training.canaries.canary_datasets import CanaryCost, CanaryDataset, CanaryResults
    from privet.training.canaries.kinds import (
        Canaries,
        DiracGradient,
        Mislabelled,
        OutOfDistribution,
        with_canaries,
    )
    from privet.training.canaries.text_canaries import TextCanaries
    from privet.training.clipping import Adaptive, Automatic, Clip, Flat, PerLayer
    from privet.training.extras.adapters import LoRA, last_layer, merge_adapters
    from privet.training.extras.augmentation import Augmentation, crops_and_flips
    from privet.training.extras.averaging import MovingAverage
    from privet.training.extras.denoising import Denoising
    from privet.training.extras.encoding import Encoding, Signs
    from privet.training.extras.module_validation import FixReport, fix
    from privet.training.extras.optimizers import CorrectedAdam
    from privet.training.extras.user_texts import UserLanguageModel, UserTexts, gather_users
    from privet.training.loop.checkpoint import Checkpoint
    from privet.training.loop.distributed import Distributed, ProcessFailed, ProcessGroup, SingleProcess
    from privet.training.loop.make_private import make_private
    from privet.training.loop.private_loop import Lot, PrivateLoop
    from privet.training.loop.run import EpochRecord, Trained, train
    from privet.training.noise.correlated import (
        BandedNoise,
        IndependentNoise,
        TreeNoise,
        square_root_coefficients,
    )
    from privet.training.noise.distributions import NoiseDistribution, Normal, Student
    from privet.training.per_example import (
        ClippedSums,
        CrossExample,
        Explanation,
        NotFinite,
        per_example_loss,
    )
    from privet.training.per_example.taps.register import register_layer
    from privet.training.per_example.taps.registered import LayerRule
    from privet.training.plan import TrainingPlan
    from privet.training.sampling.schemes import (
        CyclicPoissonSampling,
        CyclicSampling,
        FixedSizeSampling,
        PoissonSampling,
        ShuffledSampling,
    )
    from privet.training.sampling.separated import SeparatedSampling
    from privet.training.tuning.paid_models import ChosenModel, choose_model
    from privet.training.tuning.recipes import TuningRecipe, recipe_grid
    from privet.training.tuning.run_counts import NegativeBinomialCount, PoissonCount
    from privet.training.tuning.search import Tuned, tune
    from privet.training.tuning.search_failure import SearchFailed

_MODULES = {
    "Adaptive": "clipping",
    "Augmentation": "extras.augmentation",
    "Automatic": "clipping",
    "BandedNoise": "noise.correlated",
    "Canaries": "canaries.kinds",
    "CanaryCost": "canaries.canary_datasets",
    "CanaryDataset": "canaries.canary_datasets",
    "CanaryResults": "canaries.canary_datasets",
    "Checkpoint": "loop.checkpoint",
    "ChosenModel": "tuning.paid_models",
    "Clip": "clipping",
    "ClippedSums": "per_example",
    "CorrectedAdam": "extras.optimizers",
    "CrossExample": "per_example",
    "CyclicPoissonSampling": "sampling.schemes",
    "CyclicSampling": "sampling.schemes",
    "Denoising": "extras.denoising",
    "DiracGradient": "canaries.kinds",
    "Distributed": "loop.distributed",
    "Encoding": "extras.encoding",
    "EpochRecord": "loop.run",
    "Explanation": "per_example",
    "FixReport": "extras.module_validation",
    "FixedSizeSampling": "sampling.schemes",
    "Flat": "clipping",
    "IndependentNoise": "noise.correlated",
    "LayerRule": "per_example.taps.registered",
    "LoRA": "extras.adapters",
    "Lot": "loop.private_loop",
    "Mislabelled": "canaries.kinds",
    "MovingAverage": "extras.averaging",
    "NegativeBinomialCount": "tuning.run_counts",
    "NoiseDistribution": "noise.distributions",
    "Normal": "noise.distributions",
    "NotFinite": "per_example",
    "OutOfDistribution": "canaries.kinds",
    "PerLayer": "clipping",
    "PoissonCount": "tuning.run_counts",
    "PoissonSampling": "sampling.schemes",
    "PrivateLoop": "loop.private_loop",
    "ProcessFailed": "loop.distributed",
    "ProcessGroup": "loop.distributed",
    "SearchFailed": "tuning.search_failure",
    "SeparatedSampling": "sampling.separated",
    "ShuffledSampling": "sampling.schemes",
    "Signs": "extras.encoding",
    "SingleProcess": "loop.distributed",
    "Student": "noise.distributions",
    "TextCanaries": "canaries.text_canaries",
    "Trained": "loop.run",
    "TrainingPlan": "plan",
    "TreeNoise": "noise.correlated",
    "Tuned": "tuning.search",
    "TuningRecipe": "tuning.recipes",
    "UserLanguageModel": "extras.user_texts",
    "UserTexts": "extras.user_texts",
    "choose_model": "tuning.paid_models",
    "crops_and_flips": "extras.augmentation",
    "fix": "extras.module_validation",
    "gather_users": "extras.user_texts",
    "last_layer": "extras.adapters",
    "make_private": "loop.make_private",
    "merge_adapters": "extras.adapters",
    "per_example_loss": "per_example",
    "recipe_grid": "tuning.recipes",
    "register_layer": "per_example.taps.register",
    "square_root_coefficients": "noise.correlated",
    "train": "loop.run",
    "tune": "tuning.search",
    "with_canaries": "canaries.kinds",
}

__all__ = [
    "Adaptive",
    "Augmentation",
    "Automatic",
    "BandedNoise",
    "Canaries",
    "CanaryCost",
    "CanaryDataset",
    "CanaryResults",
    "Checkpoint",
    "ChosenModel",
    "Clip",
    "ClippedSums",
    "CorrectedAdam",
    "CrossExample",
    "CyclicPoissonSampling",
    "CyclicSampling",
    "Denoising",
    "DiracGradient",
    "Distributed",
    "Encoding",
    "EpochRecord",
    "Explanation",
    "FixReport",
    "FixedSizeSampling",
    "Flat",
    "IndependentNoise",
    "LayerRule",
    "LoRA",
    "Lot",
    "Mislabelled",
    "MovingAverage",
    "NegativeBinomialCount",
    "NoiseDistribution",
    "Normal",
    "NotFinite",
    "OutOfDistribution",
    "PerLayer",
    "PoissonCount",
    "PoissonSampling",
    "PrivateLoop",
    "ProcessFailed",
    "ProcessGroup",
    "SearchFailed",
    "SeparatedSampling",
    "ShuffledSampling",
    "Signs",
    "SingleProcess",
    "Student",
    "TextCanaries",
    "Trained",
    "TrainingPlan",
    "TreeNoise",
    "Tuned",
    "TuningRecipe",
    "UserLanguageModel",
    "UserTexts",
    "choose_model",
    "crops_and_flips",
    "fix",
    "gather_users",
    "last_layer",
    "make_private",
    "merge_adapters",
    "per_example_loss",
    "recipe_grid",
    "register_layer",
    "square_root_coefficients",
    "train",
    "tune",
    "with_canaries",
]


__getattr__, __dir__ = load_lazily(__name__, _MODULES)


check_public_calls(__name__)
