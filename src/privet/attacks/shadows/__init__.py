"""Shadow models: many models like the target, each trained on its own part of the records.

A *recipe* says how one model is trained (``recipe``, ``torch_recipe``; ``optimizers``, ``schedules``,
``orders``, ``augmentations``, ``stopping``), a *split* who is a member of which model (``splits``).
``studies`` puts them into a ``Job``, reads finished models from the ``cache``, lets an *engine* train the
rest (``engine``, ``stacked``, ``processes``, ``cluster``; ``choice`` picks one) and gives ``References``.
``whole_models`` keeps a few models whole, for attacks on parameters.

A new engine is a module with a subclass of ``ShadowEngine``, named below; ``choice`` says when it is taken.

>>> import numpy as np
>>> from sklearn.linear_model import LogisticRegression
>>> from privet.attacks.shadows import ScikitRecipe, study
>>> from privet.scores import Records
>>> records = Records(np.arange(40.0).reshape(20, 2) % 7, np.arange(20) % 2)
>>> study(ScikitRecipe(LogisticRegression()), records, models=4, seed=0).signals.shape
(4, 1, 20)

Names are loaded when they are first used: only ``TorchRecipe``, ``Stacked`` and the optimizers need torch.
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily
from privet.public_calls import check_public_calls

if TYPE_CHECKING:
    from privet.attacks.shadows.augmentations import AllOf, RandomMirror, RandomNoise, RandomShift
    from privet.attacks.shadows.choice import EngineChoice, choose
    from privet.attacks.shadows.cluster import Ray
    from privet.attacks.shadows.engine import Job, ModelSignals, Sequential, ShadowEngine
    from privet.attacks.shadows.optimizers import SGD, Adam, AdamW, Optimizer
    from privet.attacks.shadows.processes import Processes, WorkerFailed
    from privet.attacks.shadows.quantity_recipe import QuantityRecipe
    from privet.attacks.shadows.recipe import CallableRecipe, Recipe, ScikitRecipe
    from privet.attacks.shadows.schedules import Constant, Cosine, Linear, Schedule, StepSchedule, WarmUp
    from privet.attacks.shadows.splits import Coins, Halves, HalvesBesideRest, Split
    from privet.attacks.shadows.stacked import Stacked
    from privet.attacks.shadows.stopping import EarlyStopping
    from privet.attacks.shadows.studies import Study, conduct, study
    from privet.attacks.shadows.timing import Estimate
    from privet.attacks.shadows.torch_recipe import TorchRecipe

_MODULES = {
    "QuantityRecipe": "quantity_recipe",
    "WarmUp": "schedules",
    "Linear": "schedules",
    "EarlyStopping": "stopping",
    "RandomShift": "augmentations",
    "RandomNoise": "augmentations",
    "RandomMirror": "augmentations",
    "AllOf": "augmentations",
    "SGD": "optimizers",
    "Adam": "optimizers",
    "AdamW": "optimizers",
    "CallableRecipe": "recipe",
    "EngineChoice": "choice",
    "Coins": "splits",
    "Constant": "schedules",
    "Cosine": "schedules",
    "Optimizer": "optimizers",
    "ShadowEngine": "engine",
    "Estimate": "timing",
    "Halves": "splits",
    "HalvesBesideRest": "splits",
    "Job": "engine",
    "Processes": "processes",
    "Ray": "cluster",
    "Recipe": "recipe",
    "Schedule": "schedules",
    "ScikitRecipe": "recipe",
    "Sequential": "engine",
    "Split": "splits",
    "Stacked": "stacked",
    "StepSchedule": "schedules",
    "Study": "studies",
    "ModelSignals": "engine",
    "TorchRecipe": "torch_recipe",
    "WorkerFailed": "processes",
    "choose": "choice",
    "conduct": "studies",
    "study": "studies",
}

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "AllOf",
    "CallableRecipe",
    "Coins",
    "Constant",
    "Cosine",
    "EarlyStopping",
    "EngineChoice",
    "Estimate",
    "Halves",
    "HalvesBesideRest",
    "Job",
    "Linear",
    "ModelSignals",
    "Optimizer",
    "Processes",
    "QuantityRecipe",
    "RandomMirror",
    "RandomNoise",
    "RandomShift",
    "Ray",
    "Recipe",
    "Schedule",
    "ScikitRecipe",
    "Sequential",
    "ShadowEngine",
    "Split",
    "Stacked",
    "StepSchedule",
    "Study",
    "TorchRecipe",
    "WarmUp",
    "WorkerFailed",
    "choose",
    "conduct",
    "study",
]


__getattr__, __dir__ = load_lazily(__name__, _MODULES)


check_public_calls(__name__)
