"""``make_private``: a private run for your own training loop.

::

    private = make_private(model, optimizer, data, epsilon=3, delta=1e-5, epochs=20, clip=1.0, lot_size=1024)
    for lot in private.lots():
        private.step(lot, loss)

With ``checkpoint="folder"`` the run can be ended and resumed::

    with make_private(…, checkpoint="folder") as private:
        for lot in private.lots():
            private.step(lot, loss)
            if private.steps_done % 100 == 0:
                private.save({"epoch": epoch})  # your own state; private.user_state has it after the run
                resumes
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from privet.adjacency import AddRemove, Adjacency
from privet.arguments import format_value
from privet.errors import InvalidArgument
from privet.randomness import NoiseSource, SecureNoise
from privet.training.canaries.kinds import Canaries
from privet.training.clipping import Clip, as_clip
from privet.training.extras.augmentation import Augmentation
from privet.training.extras.averaging import MovingAverage
from privet.training.extras.denoising import Denoising
from privet.training.extras.encoding import Encoding
from privet.training.extras.module_validation import enter_training_mode, validate_model
from privet.training.loop.distributed import ProcessGroup, resolve_process_group
from privet.training.loop.inputs import read_data
from privet.training.loop.optimization import OptimizerChoice
from privet.training.loop.options import RunOptions
from privet.training.loop.private_loop import PrivateLoop
from privet.training.loop.setup import prepare_run
from privet.training.noise.correlated import Correlation, IndependentNoise
from privet.training.noise.distributions import NoiseDistribution, Normal
from privet.training.sampling.reading import Collate
from privet.training.sampling.schemes import Sampling

__all__ = ["make_private"]


def make_private(
    model: nn.Module,
    optimizer: OptimizerChoice,
    data: object,
    *,
    epsilon: float,
    delta: float,
    clip: Clip | float,
    lot_size: int | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    collate: Collate | None = None,
    classes: Sequence[Any] | None = None,
    sampling: Sampling | None = None,
    adjacency: Adjacency = AddRemove(),  # noqa: B008 - frozen
    population: int | None = None,
    correlation: Correlation = IndependentNoise(),  # noqa: B008 - frozen
    micro_batch: int | None = None,
    augmentation: Augmentation | None = None,
    noise_distribution: NoiseDistribution = Normal(),  # noqa: B008 - frozen
    encoding: Encoding | None = None,
    denoising: Denoising | None = None,
    average: MovingAverage | None = None,
    canaries: int | Canaries | None = None,
    checkpoint: str | Path | None = None,
    process_group: ProcessGroup | None = None,
    noise: NoiseSource = SecureNoise(),  # noqa: B008 - frozen
) -> PrivateLoop:
    """Make a private run from a model, its optimiser and its data, with the least noise for (ε, δ).

    *Guarantee*: at any moment ``private.ledger`` covers the weights, and nothing else that is computed from
    the data.

    Args:
        model: the model, which is trained in place. One in evaluation mode is put into training mode.
        optimizer: an optimiser of torch for the model's parameters, or a class or function that makes one
            from them. ``private.optimizer`` has it.
        data: (inputs, targets) as arrays, tensors, data frames or lists of sequences; a dictionary of
            columns, which go to the model by keyword; a dataset or a loader of either. The last column is the
            target, or the one with the name ``labels``. See "Your model, your data" in the documentation.
        epsilon: the ε that the whole run must not exceed.
        delta: the δ of ``epsilon``; below 1/(10 n).
        clip: the clipping rule; a number C means ``Flat(C)``.
        lot_size: the expected number of examples in a step. Give this or ``sampling``.
        epochs: how often the run uses each example on average. Give this or ``steps``.
        steps: the number of steps.
        collate: a function that makes a batch of a list of examples, as that of a DataLoader. It is called
            for one example at a time.
        classes: the labels, in the order of the model's outputs, if they are words or do not start from 0.
            They must be public knowledge; they are never read from the data.
        sampling: how lots are drawn; the default is Poisson sampling with ``lot_size``.
        adjacency: which data sets are neighbours; the default is add-remove of one record.
        population: a public number of examples. Rate, divisor, steps and noise follow from it. By default it
            is the number of examples in ``data``, which is then taken as public (see
            ``privet.training.plan``).
        correlation: how the noise of different steps is correlated.
        micro_batch: how many examples go through the model at once; the default fits them to the caches.
        augmentation: variants of every example, whose gradients are averaged before the clip.
        noise_distribution: the distribution of the noise.
        encoding: replaces each clipped gradient by one with few possible values.
        denoising: weights the noisy gradients by their signal-to-noise ratio.
        average: a moving average of the weights; call ``average.load_into(model)`` at the end.
        canaries: how many canaries a fair coin adds or leaves out, or which kind of them, for an audit of
            this run. ``private.canaries`` has their scores.
        checkpoint: a folder. Call ``save`` now and then, and use the run in a ``with`` block. Made again with
            the same arguments, the run resumes from there. It ends early if it would otherwise exceed ε
            because of steps that a crash lost.
        process_group: the processes that share the run. By default all processes of ``torch.distributed`` do,
            and all of them call this function.
        noise: the source of lots and noise. ``SeededNoise`` is for tests only.

    >>> import torch
    >>> loss, model = nn.CrossEntropyLoss(), nn.Linear(3, 2)
    >>> data = (torch.randn(500, 3), torch.randint(0, 2, (500,)))
    >>> optimizer = torch.optim.SGD(model.parameters(), 0.1)
    >>> private = make_private(
    ...     model, optimizer, data, epsilon=2, delta=1e-6, epochs=1, lot_size=100, clip=1.0
    ... )
    >>> for lot in private.lots():
    ...     private.step(lot, loss)
    >>> private.steps_done
    5
    """
    group = resolve_process_group(process_group)
    with group.all_or_none():
        enter_training_mode(model)
        validate_model(model)
        if optimizer is None:
            raise InvalidArgument(
                "'optimizer' must be an optimiser of torch, got None. "
                "Give torch.optim.SGD(model.parameters(), lr=0.1), for example."
            )
        if (sampling is None) == (lot_size is None):
            raise InvalidArgument(
                f"Exactly one of 'lot_size' and 'sampling' must be given, got {format_value(lot_size)} and "
                f"{format_value(sampling)}. Give the expected number of examples in a step."
            )
        rule, examples = as_clip(clip), read_data(model, data, collate=collate, classes=classes)
    options = RunOptions(
        epsilon=epsilon,
        delta=delta,
        epochs=epochs,
        steps=steps,
        lot_size=lot_size,
        sampling=sampling,
        clip=rule,
        optimizer=optimizer,
        schedule=None,
        adjacency=adjacency,
        population=population,
        correlation=correlation,
        noise_distribution=noise_distribution,
        augmentation=augmentation,
        encoding=encoding,
        denoising=denoising,
        average=average,
        micro_batch=micro_batch,
        canaries=canaries,
        checkpoint=checkpoint,
        process_group=group,
        noise=noise,
    )
    return prepare_run(model, examples, options).loop
