"""Small causal language models for audits and demonstrations: an LSTM and a transformer.

Both take tokens (n, t) and give logits (n, t, vocabulary), and both are made of layers of torch that
``privet.train`` knows.
"""

from typing import final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from privet.arguments import whole
from privet.errors import InvalidArgument
from privet.token_arguments import embed_tokens, require_tokens

__all__ = ["LSTMLanguageModel", "TransformerLanguageModel"]


@final
class LSTMLanguageModel(nn.Module):
    """Embedding, LSTM, and a linear layer to the vocabulary."""

    def __init__(self, vocabulary: int, *, embedding: int = 64, width: int = 128, layers: int = 1) -> None:
        super().__init__()
        self.embedding = nn.Embedding(whole("vocabulary", vocabulary), whole("embedding", embedding))
        self.lstm = nn.LSTM(embedding, whole("width", width), whole("layers", layers), batch_first=True)
        self.output = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        require_tokens(tokens, "sequences", "tokens")
        states, _ = self.lstm(embed_tokens(self.embedding, tokens))
        logits: Tensor = self.output(states)
        return logits


@final
class TransformerLanguageModel(nn.Module):
    """Learnt places, pre-norm blocks of causal attention and a two-layer network, and a linear layer.

    ``context`` is the longest sequence that it takes.
    """

    def __init__(
        self, vocabulary: int, *, context: int = 128, width: int = 64, heads: int = 4, layers: int = 2
    ) -> None:
        super().__init__()
        if whole("width", width) % whole("heads", heads):
            raise InvalidArgument(
                f"'width' must be a multiple of 'heads', got {width} and {heads}. Give a width such as "
                f"{heads * 16}."
            )
        self.context = whole("context", context)
        self.embedding = nn.Embedding(whole("vocabulary", vocabulary), width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(whole("layers", layers)))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        require_tokens(tokens, "sequences", "tokens", longest=self.context)
        places = torch.arange(tokens.shape[1], device=tokens.device)
        states = embed_tokens(self.embedding, tokens) + self.places(places.expand_as(tokens))
        for block in self.blocks:
            states = block(states)
        logits: Tensor = self.output(self.norm(states))
        return logits


@final
class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, states: Tensor) -> Tensor:
        rows, length, width = states.shape
        parts = self.mixed(self.first(states)).reshape(rows, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        states = states + self.joined(attended.transpose(1, 2).reshape(rows, length, width))
        grown: Tensor = states + self.outer(F.gelu(self.inner(self.second(states))))
        return grown
