"""Models that compute their own loss from ``labels``, as those of Hugging Face do: the loss of each example.

*Definition*: the loss of an example is what the model returns as its ``loss`` for a batch of this example
only. For the heads of transformers it is computed from the logits of a whole batch, by the rule of the head:

- classification of sequences, images, audio: cross entropy; squared error for ``num_labels=1``, binary cross
  entropy for labels of real numbers, or as ``config.problem_type`` says;
- tokens, masked and sequence-to-sequence language models: the mean cross entropy over the example's own
  tokens, without label −100. (In a batch the model would average over the tokens of all examples, so that a
  long example shrinks the share of the others. That is no bounded contribution.)
- causal language models: the same, and the output at each token is compared with the next token;
- question answering: the mean of the cross entropies of start and end; positions outside do not count;
- speech recognition (``ForCTC``): connectionist temporal classification, with the reduction of the config.

On the first lot a few examples are put through the model alone. If its loss differs from the rule, or if
there is no rule, each example goes through the model alone in every step, which is slow, and a warning says
so.
"""

import re
import warnings
from typing import Any, final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from privet.callers import level_of_caller
from privet.errors import InvalidArgument
from privet.training.loop.losses import as_labels, find_logits, require_labels
from privet.training.loop.model_calls import get_base_model, get_parameters
from privet.training.per_example.graph.couplings import preserve_state
from privet.training.sampling.records import SPANS

__all__ = ["OwnLoss", "has_own_loss"]

_IGNORED = -100
_TRIED = 3  # examples of the first lot that go through the model alone
_TOLERANCE = 1e-3
_LOW = (torch.bfloat16, torch.float16)
_LOW_TOLERANCE = 2e-2  # of losses that a model computes in these

_HEADS = {
    r"For(Sequence|Image|Video|Audio)Classification$": "classes",
    r"For(MultipleChoice|NextSentencePrediction)$": "choices",
    r"For(TokenClassification|MaskedLM)$": "tokens",
    r"(ForCausalLM|LMHeadModel)$": "next tokens",
    r"(ForConditionalGeneration|MTModel|EncoderDecoderModel)$": "answers",
    r"ForQuestionAnswering$": "spans",
    r"ForCTC$": "letters",
}
"""The ends of the names of classes in transformers, and what their labels are."""


def has_own_loss(model: nn.Module, in_order: int = 0) -> bool:
    """Whether the model takes labels that may be left out, and so computes a loss from them.

    ``in_order`` is the number of inputs that go to it without a keyword. They may take the place of the
    labels.
    """
    parameters = list(get_parameters(model).values())[in_order:]
    optional = {p.name for p in parameters if p.default is None}
    return "labels" in optional or all(name in optional for name in SPANS)


@final
class OwnLoss:
    """The per-example losses of a model with its own loss.

    ``module(*inputs)`` is what ``loss`` takes as outputs. ``extend`` makes the inputs of the module from the
    inputs and the targets of a lot.
    """

    def __init__(self, model: nn.Module, names: tuple[str, ...] | None) -> None:
        if not has_own_loss(model):
            raise InvalidArgument(
                "'loss' must be given for a model that does not compute its own loss from 'labels', got "
                "None. Give nn.CrossEntropyLoss(), for example."
            )
        self._model, self._names = model, names
        self._base = get_base_model(model)
        self._use_kind(_find_head(self._base))
        self.is_checked = False

    def _use_kind(self, kind: str | None) -> None:
        self.kind = kind
        self.module = (
            _Alone(self._model, self._names) if kind is None else _Logits(self._model, self._names, kind)
        )

    def extend(self, inputs: tuple[Tensor, ...], targets: Tensor) -> tuple[Tensor, ...]:
        """The inputs of the module."""
        if self.kind is None:
            return (*inputs, targets)
        if self.kind == "answers" and not (self._names and "decoder_input_ids" in self._names):
            return (*inputs, _shift_answers(self._base, targets))
        return inputs

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:  # noqa: ANN401 - of the module
        """One loss for each example, in float32 or more."""
        if isinstance(outputs, Tensor) and outputs.dtype in _LOW:
            outputs = outputs.float()  # as the models do
        match self.kind:
            case None:
                return outputs  # type: ignore[no-any-return]
            case "classes":
                return _compare_classes(outputs, targets, getattr(self._base, "config", None))
            case "choices":
                return _compare_tokens(outputs.unsqueeze(1), as_labels(targets, outputs).unsqueeze(1))
            case "spans":
                positions = targets.clamp(0, outputs.shape[2])
                losses = F.cross_entropy(
                    outputs.flatten(0, 1),
                    positions.flatten(),
                    ignore_index=outputs.shape[2],
                    reduction="none",
                )
                return losses.view(-1, 2).mean(1)
            case "letters":
                letters, frames = outputs
                return _align_letters(letters, frames, targets, self._base.config)
            case "next tokens":
                if outputs.shape[1] > targets.shape[1]:  # virtual tokens of a prompt
                    targets = F.pad(targets, (outputs.shape[1] - targets.shape[1], 0), value=_IGNORED)
                return _compare_tokens(outputs[:, :-1], targets[:, 1:])
            case _:
                return _compare_tokens(outputs, targets)

    def check(self, inputs: tuple[Tensor, ...], targets: Tensor) -> None:
        """Compare the rule with the model's own loss for a few examples alone, without dropout."""
        self.is_checked = True
        if self.kind is None:
            self._warn("has a loss of its own")
            return
        with preserve_state(self._model), torch.no_grad():
            self._model.eval()
            for i in range(min(_TRIED, len(targets))):
                one, target = tuple(x[i : i + 1] for x in inputs), targets[i : i + 1]
                own = _call_with_labels(self._model, self._names, one, target)
                if not bool(own.isfinite()):
                    continue  # an example without labels
                rule = self.loss(self.module(*self.extend(one, target)), target)
                allowed = (_LOW_TOLERANCE if own.dtype in _LOW else _TOLERANCE) * (1 + abs(float(own)))
                if rule.shape != (1,) or abs(float(rule) - float(own)) > allowed:
                    self._warn("has a loss that differs from the usual one of such models")
                    self._use_kind(None)
                    return

    def _warn(self, why: str) -> None:
        warnings.warn(
            f"{type(self._base).__name__} {why}, so each example goes through the model alone, which is "
            "slow. Give a 'loss' of (outputs, targets) with one number for each example.",
            stacklevel=level_of_caller(),
        )


@final
class _Logits(nn.Module):
    """The model's logits without its loss, which would be computed over the batch."""

    def __init__(self, model: nn.Module, names: tuple[str, ...] | None, kind: str) -> None:
        super().__init__()
        self.model, self._names, self._kind = model, names, kind
        self.training = model.training
        self._takes_cache = "use_cache" in get_parameters(model)

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Logits; those of start and end are [examples, 2, tokens], and those of speech have lengths."""
        names, more = self._names, {}
        if self._kind == "answers" and not (names and "decoder_input_ids" in names):
            *rest, shifted = inputs
            inputs, more = tuple(rest), {"decoder_input_ids": shifted}
        if self._takes_cache:
            more["use_cache"] = False  # type: ignore[assignment]
        keywords = {} if names is None else dict(zip(names, inputs, strict=True))
        outputs = self.model(*(inputs if names is None else ()), **keywords, **more)
        if self._kind == "spans":
            return torch.stack((outputs.start_logits, outputs.end_logits), 1)
        logits = find_logits(outputs)
        if self._kind == "letters":
            return logits, _count_frames(self.model, names or (), inputs)
        return logits  # type: ignore[no-any-return]


@final
class _Alone(nn.Module):
    """The model's own losses of examples alone; the last input has the labels."""

    def __init__(self, model: nn.Module, names: tuple[str, ...] | None) -> None:
        super().__init__()
        self.model, self._names = model, names
        self.training = model.training

    def forward(self, *columns: Tensor) -> Tensor:
        """One loss for each example."""
        *inputs, targets = columns
        losses = [
            _call_with_labels(
                self.model, self._names, tuple(x[i : i + 1] for x in inputs), targets[i : i + 1]
            )
            for i in range(len(targets))
        ]
        return torch.stack([loss.reshape(()) for loss in losses])


def _call_with_labels(
    model: nn.Module, names: tuple[str, ...] | None, inputs: tuple[Tensor, ...], targets: Tensor
) -> Tensor:
    labels = (
        dict(zip(SPANS, targets.unbind(1), strict=True))
        if "labels" not in get_parameters(model)
        else {"labels": targets}
    )
    if names is None:
        outputs = model(*inputs, **labels)
    else:
        outputs = model(**dict(zip(names, inputs, strict=True)), **labels)
    loss = outputs["loss"] if isinstance(outputs, dict) else getattr(outputs, "loss", None)
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        raise InvalidArgument(
            f"'loss' must be given for a model that returns no loss for its labels, got None for "
            f"{type(outputs).__name__}. Give nn.CrossEntropyLoss(), for example."
        )
    return loss


def _find_head(base: nn.Module) -> str | None:
    """What the labels of the model are; None if there is no rule for its loss."""
    for kind in type(base).__mro__:
        if kind.__module__.startswith("transformers."):
            found = next((head for end, head in _HEADS.items() if re.search(end, kind.__name__)), None)
            return found if found is None or _has_what_it_takes(base, found) else None
    return None


def _has_what_it_takes(base: nn.Module, head: str) -> bool:
    match head:
        case "spans":  # a model that answers from a list has labels instead
            return all(name in get_parameters(base) for name in SPANS)
        case "answers":
            config = getattr(base, "config", None)
            ends = (getattr(config, name, None) for name in ("decoder_start_token_id", "pad_token_id"))
            own = getattr(base, "prepare_decoder_input_ids_from_labels", None)
            return own is not None or None not in ends
        case "letters":
            return getattr(base, "_get_feat_extract_output_lengths", None) is not None
        case _:
            return True


def _shift_answers(base: nn.Module, answers: Tensor) -> Tensor:
    """What the decoder reads: the answer behind its start token. Many models have a method for this."""
    own = getattr(base, "prepare_decoder_input_ids_from_labels", None)
    if own is not None:
        return own(labels=answers)  # type: ignore[no-any-return]
    config: Any = base.config
    shifted = F.pad(answers[:, :-1], (1, 0), value=config.decoder_start_token_id)
    return shifted.masked_fill(shifted == _IGNORED, config.pad_token_id)


def _count_frames(model: nn.Module, names: tuple[str, ...], inputs: tuple[Tensor, ...]) -> Tensor:
    """The outputs that each recording has, without those of its padding."""
    base: Any = get_base_model(model)
    if "attention_mask" in names:
        samples = inputs[names.index("attention_mask")].sum(1)
    else:
        samples = torch.full((len(inputs[0]),), inputs[0].shape[1], device=inputs[0].device)
    return base._get_feat_extract_output_lengths(samples).to(torch.int64)  # type: ignore[no-any-return]


def _compare_classes(logits: Tensor, targets: Tensor, config: Any) -> Tensor:  # noqa: ANN401 - of transformers
    kind = getattr(config, "problem_type", None)
    if kind is None:
        whole = not targets.is_floating_point()
        kind = "regression" if logits.shape[1] == 1 else "single_label" if whole else "multi_label"
    if kind.startswith("single_label"):
        labels = as_labels(targets, logits)
        require_labels(labels, logits, _IGNORED)
        return F.cross_entropy(logits, labels, ignore_index=_IGNORED, reduction="none")
    if targets.numel() != logits.numel():
        raise InvalidArgument(
            f"'labels' must have a number for each output of the model, got shape {tuple(targets.shape)} for "
            f"{tuple(logits.shape)}. Set config.problem_type, or give integer labels."
        )
    numbers = targets.to(logits.dtype).reshape(logits.shape)
    if kind == "regression":
        return (logits - numbers).square().mean(1)
    return F.binary_cross_entropy_with_logits(logits, numbers, reduction="none").mean(1)


def _align_letters(logits: Tensor, frames: Tensor, labels: Tensor, config: Any) -> Tensor:  # noqa: ANN401
    """Connectionist temporal classification; negative labels do not count."""
    require_labels(labels.clamp(min=0), logits[:, 0], _IGNORED)
    ignored = labels < 0
    order = ignored.sort(dim=1, stable=True).indices  # the letters first
    counts = (~ignored).sum(1)
    losses = F.ctc_loss(
        logits.log_softmax(2).transpose(0, 1),
        labels.clamp(min=0).gather(1, order),
        frames,
        counts,
        blank=config.pad_token_id,
        reduction="none",
        zero_infinity=config.ctc_zero_infinity,
    )
    return losses / counts.clamp(min=1) if config.ctc_loss_reduction == "mean" else losses


def _compare_tokens(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean cross entropy over the labels of each example; 0 if it has none."""
    if logits.shape[:2] != labels.shape:
        raise InvalidArgument(
            f"'labels' must have one label for each token, got shape {tuple(labels.shape)} for outputs of "
            f"{tuple(logits.shape)}. Label the tokens that do not count with -100."
        )
    require_labels(labels, logits, _IGNORED)
    flat, words = labels.flatten().long(), logits.shape[2]
    losses = F.cross_entropy(logits.reshape(-1, words), flat, ignore_index=_IGNORED, reduction="none")
    counts = (labels != _IGNORED).sum(1).clamp(min=1)
    return losses.view(labels.shape).sum(1) / counts
