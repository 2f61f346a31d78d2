"""What each step says of each record: confidence before and after it, the slope there, and how far the
update points along the record's own gradient.

A client descends the loss of its own records. So after its step a record that it holds has a higher
confidence and a smaller gradient than one that it does not, and the update points against the record's
gradient.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from privet.attacks.federated.steps import ClientRecords, ObservedStep
from privet.attacks.inversion.gradients.public_model import PublicModel
from privet.attacks.outputs import Outputs, log_confidences_of_logits, log_confidences_of_probabilities
from privet.errors import InvalidArgument
from privet.observed_rounds import Weights
from privet.scores import Bits, Records
from privet.views import Labels, Numbers, Rows, confidence_logits

__all__ = ["RoundSignals", "list_gradients", "load_weights", "measure_rounds"]

_LEAST = 1e-30
_FARTHEST = 6.0  # of a standardised signal, so that one record does not decide the scale of a round


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class RoundSignals:
    """What the steps of each round say of each record: every array is rounds × records.

    ``seen`` is False where no step of the round may hold the record's client; the other arrays are 0 there.
    ``confidence`` is φ = ln(p/(1−p)) of the true label after the step, ``gain`` how much the step raised it,
    ``slope`` −ln of the gradient's norm after the step, ``alignment`` the cosine between the update and the
    direction that lowers the record's loss.
    """

    rounds: tuple[int, ...]
    seen: Bits
    confidence: Numbers
    gain: Numbers
    slope: Numbers
    alignment: Numbers

    def __len__(self) -> int:
        """How many records."""
        return int(self.seen.shape[1])

    def restrict(self, which: Bits) -> "RoundSignals":
        """The same signals, where only some rounds count for a record: rounds × records."""
        return replace(self, seen=self.seen & which)

    def standardise(self, values: Numbers) -> Numbers:
        """A signal on one scale in all rounds: minus its mean and divided by its spread over the records.

        Rounds in which nothing was seen, or all is alike, are 0.
        """
        answer = np.zeros_like(values)
        for place, seen in enumerate(self.seen):
            if seen.sum() < 2:
                continue
            part = values[place, seen]
            spread = float(part.std())
            if spread > 1e-12 * max(1.0, float(np.abs(part).max())):
                answer[place, seen] = np.clip((part - part.mean()) / spread, -_FARTHEST, _FARTHEST)
        return answer

    def average(self, standard: Numbers, rounds: slice = slice(None)) -> Numbers:
        """The mean of a standardised signal over the rounds in which each record was seen; 0 where never."""
        seen = self.seen[rounds]
        answer: Numbers = np.where(seen, standard[rounds], 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
        return answer


def measure_rounds(module: nn.Module, steps: Sequence[ObservedStep], targets: ClientRecords) -> RoundSignals:
    """The signals of these steps for these records; ``module`` is the architecture, which is public."""
    labels = targets.records.known_labels
    inputs = targets.records.inputs
    numbers = sorted({step.round_number for step in steps})
    shape = (len(numbers), len(targets))
    seen = np.zeros(shape, dtype=np.bool_)
    confidence, gain, slope, alignment = (np.zeros(shape) for _ in range(4))
    for place, number in enumerate(numbers):
        group = [step for step in steps if step.round_number == number]
        for before, part in _group_by_start(group):
            held = [_find_held(step, targets) for step in part]
            asked = np.unique(np.concatenate(held))  # no gradients of records that no step is about
            if not len(asked):
                continue
            start = load_weights(module, before, inputs.shape[1:])
            along, sizes = _align(start, part, inputs[asked], labels[asked])
            first = _confidences(start, inputs[asked], labels[asked])
            for column, (step, which) in enumerate(zip(part, held, strict=True)):
                if not len(which):
                    continue
                rows = np.searchsorted(asked, which)
                after = load_weights(module, step.after, inputs.shape[1:])
                last = _confidences(after, inputs[which], labels[which])
                lengths = np.maximum(sizes[rows] * _norm(start, step.update), _LEAST)
                seen[place, which] = True
                confidence[place, which] = last
                gain[place, which] = last - first[rows]
                alignment[place, which] = along[rows, column] / lengths
                norms = _gradient_norms(after, inputs[which], labels[which])
                slope[place, which] = -np.log(np.maximum(norms, _LEAST))
    return RoundSignals(
        rounds=tuple(numbers), seen=seen, confidence=confidence, gain=gain, slope=slope, alignment=alignment
    )


def load_weights(module: nn.Module, weights: Weights, shape: Sequence[int]) -> PublicModel:
    """The public model with the weights that an adversary saw; those of another model are refused.

    A copy in evaluation mode, because dropout and the statistics of a batch are no property of a record.
    """
    model = copy.deepcopy(module).eval().requires_grad_(requires_grad=True)
    state = dict(model.state_dict())
    for name, values in weights.items():
        if name not in state or tuple(state[name].shape) != np.shape(values):
            raise InvalidArgument(
                f"'module' must have the weights that were observed, and {name!r} has no place of shape "
                f"{np.shape(values)} in it. Give the architecture that the run trained."
            )
        state[name] = torch.as_tensor(np.array(values)).to(state[name].dtype)
    model.load_state_dict(state)
    return PublicModel(model, shape=[int(size) for size in shape])


def list_gradients(model: PublicModel, records: Records) -> Tensor:
    """The gradient of each record's loss as one row of all parameters, in the order of ``model.weights``."""
    return torch.cat(list(_rows_of_gradients(model, records.inputs, records.known_labels)))


def _find_held(step: ObservedStep, targets: ClientRecords) -> NDArray[np.intp]:
    """The places of the records whose client may be in the step."""
    return np.flatnonzero([step.may_hold(int(home)) for home in targets.homes])


def _group_by_start(group: Sequence[ObservedStep]) -> list[tuple[Weights, list[ObservedStep]]]:
    """Steps from the same weights together, because gradients there are computed once."""
    parts: dict[int, tuple[Weights, list[ObservedStep]]] = {}
    for step in group:
        parts.setdefault(id(step.before), (step.before, []))[1].append(step)
    return list(parts.values())


def _confidences(model: PublicModel, inputs: Rows, labels: Labels) -> Numbers:
    rows, classes = model.to_tensors(inputs, labels)
    with torch.no_grad():
        table = model.predict(rows).double().cpu().numpy()
    if model.gives is Outputs.PROBABILITIES:
        confidences = log_confidences_of_probabilities(table)
    else:
        confidences = log_confidences_of_logits(np.nan_to_num(table), "Let the module give logits.")
    return confidence_logits(confidences, classes.cpu().numpy())


def _align(
    model: PublicModel, steps: Sequence[ObservedStep], inputs: Rows, labels: Labels
) -> tuple[Numbers, Numbers]:
    """⟨−∇loss, update⟩ of every record and step, records × steps, and ‖∇loss‖ of every record."""
    names = list(model.weights)
    updates = np.stack(
        [np.concatenate([np.ravel(step.update[name]) for name in names]) for step in steps], axis=1
    )
    columns = torch.as_tensor(np.nan_to_num(updates), dtype=torch.float64)
    products, squares = [], []
    for part in _rows_of_gradients(model, inputs, labels):
        products.append(-(part @ columns))
        squares.append(part.square().sum(dim=1))
    return torch.cat(products).numpy(), torch.cat(squares).sqrt().numpy()


def _gradient_norms(model: PublicModel, inputs: Rows, labels: Labels) -> Numbers:
    norms = [part.square().sum(dim=1).sqrt() for part in _rows_of_gradients(model, inputs, labels)]
    answer: Numbers = torch.cat(norms).numpy()
    return answer


def _rows_of_gradients(model: PublicModel, inputs: Rows, labels: Labels) -> Iterator[Tensor]:
    """Each record's gradient as one row, a few records at a time."""
    for part in model.per_example(inputs, labels):
        yield torch.cat([value.detach().flatten(1).cpu().double() for value in part.values()], dim=1)


def _norm(model: PublicModel, update: Weights) -> float:
    return float(np.sqrt(sum(float(np.square(update[name]).sum()) for name in model.weights)))
