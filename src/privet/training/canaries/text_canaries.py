"""Canaries of text: a sentence with a random secret, inserted by a coin, for models that predict tokens.

::

    format = CanaryFormat.of_text(ByteEncoder(), "My number is ", end=256, places=9)
    trained = privet.train(model, (tokens, targets), …, canaries=Canaries(500, TextCanaries(format)))
    OneRun(confidence=0.95).test(trained.canaries.scores, trained.guarantee(), delta=1e-5)

The score of a canary is how much training raised the probability of its secret among all secrets of the
format: Σ over its places of ln p(token) − ln p(any token that the format allows), after minus before. What
the model learns about digits in general raises all secrets alike, so it cancels.

*One copy each.* A canary is one record in one slot, and the claim for one record is what its audit tests. A
secret that is repeated k times is k records; ``plant_canaries`` inserts those for training outside of this
loop, and ``CanaryExposure`` judges them against the claim for a group of k.

*Reference*: Carlini, Liu, Erlingsson, Kos & Song 2019 (canaries in text); Steinke, Nasr & Jagielski 2023
(coins, and an audit of one run).
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from privet.arguments import whole
from privet.canary_formats import CanaryFormat, Tokens
from privet.errors import InvalidArgument
from privet.training.canaries.canary_datasets import CanaryDataset, RecordCanaries
from privet.training.canaries.kinds import CanaryKind
from privet.training.double_precision import to_float64
from privet.training.loop.losses import find_logits
from privet.training.loop.model_calls import prepare_call
from privet.training.loop.step import split_targets
from privet.training.sampling.examples import Examples, split_micro_batches
from privet.views import Adversary, Numbers

__all__ = ["TextCanaries"]

_BATCH = 64  # texts that go through the model at once

_ADVERSARY = Adversary(
    sees="the probability of every next token, before and after training",
    knows="every canary, and not its coin",
    wants="which canaries were trained on",
)


@final
@dataclass(frozen=True, eq=False)
class TextCanaries(CanaryKind):
    """Texts of a format, each with a secret of its own.

    The data must be tokens, examples × length, with a target for each token. ``shifted=True`` means that the
    target of a place is the *next* token; False means that targets repeat the tokens and the model shifts
    them itself, as models of Hugging Face do. A canary is filled up with ``pad``, and its targets there are
    ``ignored``, which the loss must skip (``ignore_index`` of cross entropy is −100).
    """

    format: CanaryFormat
    shifted: bool = True
    pad: int = 0
    ignored: int = -100

    def __post_init__(self) -> None:
        whole("pad", self.pad, least=0)

    def __repr__(self) -> str:
        return f"TextCanaries({len(self.format.choices)} places, {self.format.bits:.1f} bits)"

    def insert_into(
        self, examples: Examples, count: int, seed: int, model: nn.Module | None
    ) -> CanaryDataset:
        del model
        columns = examples.take(torch.zeros(0, dtype=torch.int64))
        _require_tokens(columns, self.format, shifted=self.shifted)
        return _SecretTexts(examples, count, seed, self)


@final
class _SecretTexts(RecordCanaries):
    """Canaries of text, in slots behind the data."""

    def __init__(self, examples: Examples, count: int, seed: int, kind: TextCanaries) -> None:
        self._text = kind
        super().__init__(examples, count, seed, repr(kind), _ADVERSARY, added=count)

    def _draw_contents(self, slots: Tensor, generator: np.random.Generator) -> None:
        del slots
        columns = self._examples.take(torch.zeros(0, dtype=torch.int64))
        self._secrets = self._text.format.draw(self.count, generator)
        texts = self._text.format.write(self._secrets)
        self._columns = _write_columns(texts, columns, self.input_names, self._text)

    def _gather(self, indices: Tensor, canaries: Tensor) -> tuple[Tensor, ...]:
        examples = self._examples.take(indices[canaries < 0])
        records = self._records(canaries[canaries >= 0])
        return tuple(torch.cat((a, b)) for a, b in zip(examples, records, strict=True))

    def _records(self, canaries: Tensor) -> tuple[Tensor, ...]:
        return tuple(column[canaries] for column in self._columns)

    def _signals(self, model: nn.Module) -> Numbers:
        """ln of the probability of each secret among those of the format, in evaluation mode."""
        training = [module for module in model.modules() if module.training]
        model.eval()
        signals: list[Numbers] = []
        try:
            with torch.no_grad():
                called = prepare_call(model, self.input_names)
                for canaries in split_micro_batches(torch.arange(self.count), _BATCH):
                    inputs, _ = split_targets(self._records(canaries))
                    logits = _order_axes(find_logits(called(*inputs)), inputs[0])
                    signals.append(self._score(logits, self._secrets[canaries.numpy()]))
        finally:
            for module in training:
                module.training = True
        return np.concatenate(signals)

    def _score(self, logits: Tensor, secrets: Tokens) -> Numbers:
        first = len(self._text.format.prefix) - 1  # the logits here predict the first token of the secret
        total = torch.zeros(len(secrets), dtype=torch.float64)
        for place, choices in enumerate(self._text.format.choices):
            logs = to_float64(logits[:, first + place]).cpu()
            own = logs.gather(1, torch.from_numpy(secrets[:, place : place + 1])).squeeze(1)
            total += own - torch.logsumexp(logs[:, torch.from_numpy(choices)], dim=1)
        answer: Numbers = total.numpy()
        return answer


def _require_tokens(columns: tuple[Tensor, ...], format: CanaryFormat, *, shifted: bool) -> None:
    """Refuse data that are no tokens with targets, or that are too short for a canary."""
    inputs, targets = split_targets(columns)
    shapes = {column.shape[1:] for column in (*inputs, targets)}
    whole_numbers = all(not column.is_floating_point() for column in (*inputs, targets))
    if len(columns) < 2 or len(shapes) > 1 or inputs[0].dim() != 2 or not whole_numbers:
        raise InvalidArgument(
            "'canaries' of text need tokens, examples × length, and a target for each token, and the data "
            "has another form. Give (tokens, targets), or use DiracGradient(), which takes any data."
        )
    texts = len(format.prefix) + len(format.choices) + len(format.suffix)
    if texts - int(shifted) > inputs[0].shape[1]:
        raise InvalidArgument(
            f"'format' must fit into the {inputs[0].shape[1]} tokens of an example, got a text of {texts}. "
            f"Shorten the prefix or the secret."
        )


def _write_columns(
    texts: list[Tokens], columns: tuple[Tensor, ...], names: tuple[str, ...] | None, kind: TextCanaries
) -> tuple[Tensor, ...]:
    """The canaries in the columns of the data: tokens, a mask where the data has one, and targets."""
    inputs, targets = split_targets(columns)
    length = inputs[0].shape[1]
    tokens = np.full((len(texts), length), kind.pad, dtype=np.int64)
    labels = np.full((len(texts), length), kind.ignored, dtype=np.int64)
    mask = np.zeros((len(texts), length), dtype=np.int64)
    for row, text in enumerate(texts):
        read, told = (text[:-1], text[1:]) if kind.shifted else (text, text)
        tokens[row, : len(read)], labels[row, : len(told)], mask[row, : len(read)] = read, told, 1
    known = {"attention_mask": mask}
    rest = (names or ())[1:]
    if len(rest) != len(inputs) - 1 or not all(name in known for name in rest):
        raise InvalidArgument(
            "'canaries' of text know tokens, 'attention_mask' and targets, and the data has other columns, "
            "too. Give the tokens alone, or use DiracGradient()."
        )
    written = [tokens, *(known[name] for name in rest), labels]
    return tuple(
        torch.from_numpy(values).to(like.dtype)
        for values, like in zip(written, (*inputs, targets), strict=True)
    )


def _order_axes(logits: Tensor, tokens: Tensor) -> Tensor:
    """Logits as examples × places × vocabulary; cross entropy of torch has the vocabulary second."""
    if logits.dim() != 3 or tokens.shape[1] not in logits.shape[1:]:
        raise InvalidArgument(
            f"'model' must give logits for every token, got an output of shape {tuple(logits.shape)}. Use "
            f"DiracGradient(), which takes any model."
        )
    return logits if logits.shape[1] == tokens.shape[1] else logits.transpose(1, 2)
