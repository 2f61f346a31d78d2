"""What a language model remembers: sentences, authors, secrets.

Views of models are made by ``torch_tokens`` and ``ngrams``, tokens by ``encoders``.

Names are loaded when they are first used: only ``TorchTokenView`` needs torch.
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily
from privet.public_calls import check_public_calls

if TYPE_CHECKING:
    from privet.attacks.text.encoders import ByteEncoder, TextEncoder, WordEncoder, encode_texts
    from privet.attacks.text.token_views import TokenLogProbs, TokenView, cut_sequences
    from privet.attacks.text.torch_tokens import TorchTokenView

_MODULES = {
    "ByteEncoder": "encoders",
    "TextEncoder": "encoders",
    "TokenLogProbs": "token_views",
    "TokenView": "token_views",
    "TorchTokenView": "torch_tokens",
    "WordEncoder": "encoders",
    "cut_sequences": "token_views",
    "encode_texts": "encoders",
}

__all__ = [
    "ByteEncoder",
    "TextEncoder",
    "TokenLogProbs",
    "TokenView",
    "TorchTokenView",
    "WordEncoder",
    "cut_sequences",
    "encode_texts",
]


__getattr__, __dir__ = load_lazily(__name__, _MODULES)


check_public_calls(__name__)
