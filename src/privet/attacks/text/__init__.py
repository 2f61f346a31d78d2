"""What a language model remembers: sentences, authors, secrets and passages.

A *view* says what an adversary sees of a model (``token_views``; ``torch_tokens``, ``ngrams``), an *encoder*
makes tokens of texts (``encoders``, ``texts``). ``membership`` asks which sentences were trained on, over the
``signals`` of one forward pass; ``authors`` asks which people's. ``text_recipe`` trains models on sequences,
the target's like and its references through the shadow engine (``sequence_views``, ``author_references``),
over ``small_models``. ``exposure`` ranks secrets that were inserted as canaries; ``extraction`` and
``sampled_extraction`` look for passages that a model repeats word for word.

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
    from privet.attacks.text.equal_loss import EqualLossPoint, LeakCurve, compare_at_equal_loss
    from privet.attacks.text.exposure import (
        CanaryExposure,
        CopiesExposure,
        ExposureResults,
        SecretRanks,
        compute_blind_exposure,
    )
    from privet.attacks.text.exposure_estimates import (
        ExposureIntervals,
        FormatDraws,
        bound_by_controls,
        draw_secrets,
        extrapolate_exposures,
        to_exposures,
    )
    from privet.attacks.text.exposure_law import bound_hit_rate, bound_mean_exposure
    from privet.attacks.text.extraction import PromptedExtraction, compute_extraction_chances, count_tries
    from privet.attacks.text.generation import Decoding, generate, score_continuations
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
    from privet.attacks.text.passages import (
        NgramIndex,
        Passages,
        are_near_copies,
        drop_near_copies,
        find_passages,
    )
    from privet.attacks.text.prefix_tree import (
        LikeliestSecrets,
        find_likeliest,
        rank_in_space,
        score_secrets,
        score_space,
    )
    from privet.attacks.text.sampled_extraction import SampledExtraction, SampledTexts
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
    "CanaryExposure": "exposure",
    "CopiesExposure": "exposure",
    "Decoding": "generation",
    "EqualLossPoint": "equal_loss",
    "ExposureIntervals": "exposure_estimates",
    "ExposureResults": "exposure",
    "FormatDraws": "exposure_estimates",
    "LeakCurve": "equal_loss",
    "LikeliestSecrets": "prefix_tree",
    "NgramIndex": "passages",
    "Passages": "passages",
    "PromptedExtraction": "extraction",
    "SampledExtraction": "sampled_extraction",
    "SampledTexts": "sampled_extraction",
    "SecretRanks": "exposure",
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
    "are_near_copies": "passages",
    "bound_by_controls": "exposure_estimates",
    "bound_hit_rate": "exposure_law",
    "bound_mean_exposure": "exposure_law",
    "compare_at_equal_loss": "equal_loss",
    "compute_blind_exposure": "exposure",
    "compute_extraction_chances": "extraction",
    "count_tries": "extraction",
    "ZlibRatio": "membership",
    "check_encoder": "encoders",
    "cut_sequences": "token_views",
    "draw_secrets": "exposure_estimates",
    "drop_near_copies": "passages",
    "encode_texts": "encoders",
    "extrapolate_exposures": "exposure_estimates",
    "find_likeliest": "prefix_tree",
    "find_passages": "passages",
    "generate": "generation",
    "rank_in_space": "prefix_tree",
    "score_continuations": "generation",
    "score_secrets": "prefix_tree",
    "score_space": "prefix_tree",
    "to_exposures": "exposure_estimates",
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
    "CanaryExposure",
    "CopiesExposure",
    "Decoding",
    "EqualLossPoint",
    "ExposureIntervals",
    "ExposureResults",
    "FormatDraws",
    "LSTMLanguageModel",
    "LeakCurve",
    "LikeliestSecrets",
    "MinK",
    "MinKPlusPlus",
    "NGramModel",
    "Neighbourhood",
    "NgramIndex",
    "Passages",
    "PromptedExtraction",
    "RankHistogram",
    "ReferenceRatio",
    "ReferencedAuthors",
    "ReferencedSequences",
    "SampledExtraction",
    "SampledTexts",
    "SecretRanks",
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
    "are_near_copies",
    "bound_by_controls",
    "bound_hit_rate",
    "bound_mean_exposure",
    "check_encoder",
    "compare_at_equal_loss",
    "compute_blind_exposure",
    "compute_extraction_chances",
    "count_tries",
    "cut_sequences",
    "draw_secrets",
    "drop_near_copies",
    "encode_texts",
    "extrapolate_exposures",
    "find_likeliest",
    "find_passages",
    "generate",
    "group_by_author",
    "leave_out_target",
    "mean_log_probability",
    "min_k",
    "min_k_plus_plus",
    "rank_in_space",
    "reference_log_ratio",
    "run_authors",
    "run_together",
    "score_continuations",
    "score_curve",
    "score_secrets",
    "score_space",
    "sequence_records",
    "to_exposures",
    "zlib_log_ratio",
]


__getattr__, __dir__ = load_lazily(__name__, _MODULES)


check_public_calls(__name__)
