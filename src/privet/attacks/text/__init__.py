"""What a language model remembers: sentences, authors, secrets.

Views of models are made by ``torch_tokens`` and ``ngrams``, tokens by ``encoders``.
``exposure`` ranks secrets that were inserted as canaries. ``extraction`` and ``sampled_extraction`` look for
passages that a model repeats word for word.

Names are loaded when they are first used: only ``TorchTokenView`` needs torch.
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily
from privet.public_calls import check_public_calls

if TYPE_CHECKING:
    from privet.attacks.text.encoders import ByteEncoder, TextEncoder, WordEncoder, encode_texts
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
        draw_from_model,
        extrapolate_exposures,
        to_exposures,
    )
    from privet.attacks.text.exposure_law import bound_hit_rate, bound_mean_exposure
    from privet.attacks.text.extraction import PromptedExtraction, compute_extraction_chances, count_tries
    from privet.attacks.text.generation import Decoding, generate, score_continuations
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
    from privet.attacks.text.sampled_extraction import SampledExtraction, SampledTexts, average_log_likelihood
    from privet.attacks.text.token_views import TokenLogProbs, TokenView, cut_sequences
    from privet.attacks.text.torch_tokens import TorchTokenView

_MODULES = {
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
    "TextEncoder": "encoders",
    "TokenLogProbs": "token_views",
    "TokenView": "token_views",
    "TorchTokenView": "torch_tokens",
    "WordEncoder": "encoders",
    "are_near_copies": "passages",
    "average_log_likelihood": "sampled_extraction",
    "bound_by_controls": "exposure_estimates",
    "bound_hit_rate": "exposure_law",
    "bound_mean_exposure": "exposure_law",
    "compare_at_equal_loss": "equal_loss",
    "compute_blind_exposure": "exposure",
    "compute_extraction_chances": "extraction",
    "count_tries": "extraction",
    "cut_sequences": "token_views",
    "draw_from_model": "exposure_estimates",
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
}

__all__ = [
    "ByteEncoder",
    "CanaryExposure",
    "CopiesExposure",
    "Decoding",
    "EqualLossPoint",
    "ExposureIntervals",
    "ExposureResults",
    "FormatDraws",
    "LeakCurve",
    "LikeliestSecrets",
    "NgramIndex",
    "Passages",
    "PromptedExtraction",
    "SampledExtraction",
    "SampledTexts",
    "SecretRanks",
    "TextEncoder",
    "TokenLogProbs",
    "TokenView",
    "TorchTokenView",
    "WordEncoder",
    "are_near_copies",
    "average_log_likelihood",
    "bound_by_controls",
    "bound_hit_rate",
    "bound_mean_exposure",
    "compare_at_equal_loss",
    "compute_blind_exposure",
    "compute_extraction_chances",
    "count_tries",
    "cut_sequences",
    "draw_from_model",
    "drop_near_copies",
    "encode_texts",
    "extrapolate_exposures",
    "find_likeliest",
    "find_passages",
    "generate",
    "rank_in_space",
    "score_continuations",
    "score_secrets",
    "score_space",
    "to_exposures",
]


__getattr__, __dir__ = load_lazily(__name__, _MODULES)


check_public_calls(__name__)
