"""The options of a private run. ``train`` and ``make_private`` make them, and ``setup`` reads them."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from privet.adjacency import Adjacency
from privet.randomness import NoiseSource
from privet.training.canaries.kinds import Canaries
from privet.training.clipping import Clip
from privet.training.extras.augmentation import Augmentation
from privet.training.extras.averaging import MovingAverage
from privet.training.extras.denoising import Denoising
from privet.training.extras.encoding import Encoding
from privet.training.loop.distributed import ProcessGroup
from privet.training.loop.optimization import OptimizerChoice, ScheduleChoice
from privet.training.noise.correlated import Correlation
from privet.training.noise.distributions import NoiseDistribution
from privet.training.sampling.schemes import Sampling

__all__ = ["RunOptions"]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class RunOptions:
    """Everything about a run except the model and the data. The arguments of ``train`` describe each option.

    ``lot_size=None`` together with ``sampling=None`` means the default lot size. ``optimizer=None`` means the
    default optimiser.
    """

    epsilon: float
    delta: float
    epochs: float | None
    steps: int | None
    lot_size: int | None
    sampling: Sampling | None
    clip: Clip
    optimizer: OptimizerChoice | None
    schedule: ScheduleChoice | None
    adjacency: Adjacency
    population: int | None
    correlation: Correlation
    noise_distribution: NoiseDistribution
    augmentation: Augmentation | None
    encoding: Encoding | None
    denoising: Denoising | None
    average: MovingAverage | None
    micro_batch: int | None
    canaries: int | Canaries | None
    checkpoint: str | Path | None
    process_group: ProcessGroup
    noise: NoiseSource
