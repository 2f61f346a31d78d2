"""Shadow models: many models like the target, each with other members, trained together.

>>> import numpy as np
>>> from sklearn.linear_model import LogisticRegression
>>> from privet.attacks.shadows import ScikitRecipe, study
>>> from privet.scores import Records
>>> records = Records(np.arange(40.0).reshape(20, 2) % 7, np.arange(20) % 2)
>>> study(ScikitRecipe(LogisticRegression()), records, models=4, seed=0).signals.shape
(4, 1, 20)

Names are loaded when they are first used: torch is needed for ``TorchRecipe`` and ``Stacked`` alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from privet.errors import MissingPackage
from privet.public_calls import check_public_calls

if TYPE_CHECKING:
    from privet.attacks.shadows.choice import Choice, Estimate, choose
    from privet.attacks.shadows.cluster import Ray
    from privet.attacks.shadows.descents import SGD, Adam, AdamW, Descent
    from privet.attacks.shadows.engine import Engine, Job, Sequential, Told
    from privet.attacks.shadows.processes import Processes, WorkerFailed
    from privet.attacks.shadows.recipe import CallableRecipe, Recipe, ScikitRecipe
    from privet.attacks.shadows.schedules import Constant, Cosine, Schedule, Steps
    from privet.attacks.shadows.splits import Coins, Halves, HalvesBesideRest, Split
    from privet.attacks.shadows.stacked import Stacked
    from privet.attacks.shadows.studies import Study, conduct, study
    from privet.attacks.shadows.torch_recipe import TorchRecipe

_HOMES = {
    "SGD": "descents",
    "Adam": "descents",
    "AdamW": "descents",
    "CallableRecipe": "recipe",
    "Choice": "choice",
    "Coins": "splits",
    "Constant": "schedules",
    "Cosine": "schedules",
    "Descent": "descents",
    "Engine": "engine",
    "Estimate": "choice",
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
    "Steps": "schedules",
    "Study": "studies",
    "Told": "engine",
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
    "CallableRecipe",
    "Choice",
    "Coins",
    "Constant",
    "Cosine",
    "Descent",
    "Engine",
    "Estimate",
    "Halves",
    "HalvesBesideRest",
    "Job",
    "Processes",
    "Ray",
    "Recipe",
    "Schedule",
    "ScikitRecipe",
    "Sequential",
    "Split",
    "Stacked",
    "Steps",
    "Study",
    "Told",
    "TorchRecipe",
    "WorkerFailed",
    "choose",
    "conduct",
    "study",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        raise MissingPackage(
            f"{name} needs the package 'torch', which is not installed. Run pip install 'privet[torch]'."
        ) from None


check_public_calls(__name__)
