"""What a language model remembers: sentences and authors.

A *view* says what an adversary sees of a model (``token_views``; ``torch_tokens``, ``ngrams``), an *encoder*
makes tokens of texts (``encoders``, ``texts``). ``membership`` asks which sentences were trained on, over the
``signals`` of one forward pass; ``authors`` asks which people's. ``text_recipe`` trains models on sequences,
the target's like and its references through the shadow engine (``sequence_views``, ``author_references``),
over ``small_models``.

>>> import numpy as np
>>> from privet.attacks.text import ByteEncoder, NGramModel, SequenceLoss, Texts
>>> encoder = ByteEncoder()
>>> texts = Texts.encode(encoder, ["the cat sat", "a dog ran"], end=encoder.end)
>>> model = NGramModel(texts.sequences[:1], vocabulary=encoder.vocabulary)
>>> SequenceLoss().run(model, texts, np.array([True, False])).values.round(1).tolist()
[-0.4, -4.9]

Names are loaded when they are first used: only recipes, models and ``TorchTokenView`` need torch.
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily
from privet.public_calls import check_public_calls

if TYPE_CHECKING:
    from privet.attacks.text.author_references import (
        AuthorSplit,
        ReferencedAuthors,
        group_by_author,
        leave_out_target,
    )
    from privet.attacks.text.authors import (
        AuthorAttack,
        AuthorLoss,
        AuthorRatio,
        Authors,
        AuthorShadow,
        RankHistogram,
        run_authors,
        score_curve,
    )
    from privet.attacks.text.encoders import (
        ByteEncoder,
        TextEncoder,
        WordEncoder,
        check_encoder,
        encode_texts,
    )
    from privet.attacks.text.membership import (
        MinK,
        MinKPlusPlus,
        Neighbourhood,
        ReferencedSequences,
        ReferenceRatio,
        SequenceAttack,
        SequenceLoss,
        ZlibRatio,
        run_together,
    )
    from privet.attacks.text.ngrams import NGramModel
    from privet.attacks.text.sequence_views import SequenceView, sequence_records
    from privet.attacks.text.signals import (
        mean_log_probability,
        min_k,
        min_k_plus_plus,
        reference_log_ratio,
        zlib_log_ratio,
    )
    from privet.attacks.text.small_models import LSTMLanguageModel, TransformerLanguageModel
    from privet.attacks.text.text_recipe import TextRecipe
    from privet.attacks.text.texts import Texts
    from privet.attacks.text.token_views import TokenLogProbs, TokenView, cut_sequences
    from privet.attacks.text.torch_tokens import TorchTokenView

_MODULES = {
    "AuthorAttack": "authors",
    "AuthorLoss": "authors",
    "AuthorRatio": "authors",
    "AuthorShadow": "authors",
    "AuthorSplit": "author_references",
    "Authors": "authors",
    "ByteEncoder": "encoders",
    "LSTMLanguageModel": "small_models",
    "MinK": "membership",
    "MinKPlusPlus": "membership",
    "NGramModel": "ngrams",
    "Neighbourhood": "membership",
    "RankHistogram": "authors",
    "ReferenceRatio": "membership",
    "ReferencedAuthors": "author_references",
    "ReferencedSequences": "membership",
    "SequenceAttack": "membership",
    "SequenceLoss": "membership",
    "SequenceView": "sequence_views",
    "TextEncoder": "encoders",
    "TextRecipe": "text_recipe",
    "Texts": "texts",
    "TokenLogProbs": "token_views",
    "TokenView": "token_views",
    "TorchTokenView": "torch_tokens",
    "TransformerLanguageModel": "small_models",
    "WordEncoder": "encoders",
    "ZlibRatio": "membership",
    "check_encoder": "encoders",
    "cut_sequences": "token_views",
    "encode_texts": "encoders",
    "group_by_author": "author_references",
    "leave_out_target": "author_references",
    "mean_log_probability": "signals",
    "min_k": "signals",
    "min_k_plus_plus": "signals",
    "reference_log_ratio": "signals",
    "run_authors": "authors",
    "run_together": "membership",
    "score_curve": "authors",
    "sequence_records": "sequence_views",
    "zlib_log_ratio": "signals",
}

__all__ = [
    "AuthorAttack",
    "AuthorLoss",
    "AuthorRatio",
    "AuthorShadow",
    "AuthorSplit",
    "Authors",
    "ByteEncoder",
    "LSTMLanguageModel",
    "MinK",
    "MinKPlusPlus",
    "NGramModel",
    "Neighbourhood",
    "RankHistogram",
    "ReferenceRatio",
    "ReferencedAuthors",
    "ReferencedSequences",
    "SequenceAttack",
    "SequenceLoss",
    "SequenceView",
    "TextEncoder",
    "TextRecipe",
    "Texts",
    "TokenLogProbs",
    "TokenView",
    "TorchTokenView",
    "TransformerLanguageModel",
    "WordEncoder",
    "ZlibRatio",
    "check_encoder",
    "cut_sequences",
    "encode_texts",
    "group_by_author",
    "leave_out_target",
    "mean_log_probability",
    "min_k",
    "min_k_plus_plus",
    "reference_log_ratio",
    "run_authors",
    "run_together",
    "score_curve",
    "sequence_records",
    "zlib_log_ratio",
]


__getattr__, __dir__ = load_lazily(__name__, _MODULES)


check_public_calls(__name__)
