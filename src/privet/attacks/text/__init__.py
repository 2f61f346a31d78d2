"""What a language model remembers: sentences, authors, secrets.

Views of models are made by ``torch_tokens`` and ``ngrams``, tokens by ``encoders``.
``exposure`` ranks secrets that were inserted as canaries.

Names are loaded when they are first used: only ``TorchTokenView`` needs torch.
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily
from privet.public_calls import check_public_calls

if TYPE_CHECKING:
    from privet.attacks.text.canary_formats import CanaryFormat, PlantedCanaries, plant_canaries
    from privet.attacks.text.encoders import ByteEncoder, TextEncoder, WordEncoder, encode_texts
    from privet.attacks.text.exposure import (
        CanaryExposure,
        CopiesExposure,
        ExposureResults,
        SecretRanks,
        blind_exposure,
    )
    from privet.attacks.text.exposure_estimates import (
        ExposureIntervals,
        FormatDraws,
        bound_by_controls,
        draw_from_model,
        extrapolate_exposures,
        to_exposures,
    )
    from privet.attacks.text.exposure_law import highest_hit_rate, highest_mean_exposure
    from privet.attacks.text.prefix_tree import (
        LikeliestSecrets,
        find_likeliest,
        rank_in_space,
        score_secrets,
        score_space,
    )
    from privet.attacks.text.token_views import TokenLogProbs, TokenView, cut_sequences
    from privet.attacks.text.torch_tokens import TorchTokenView

_MODULES = {
    "ByteEncoder": "encoders",
    "CanaryExposure": "exposure",
    "CanaryFormat": "canary_formats",
    "CopiesExposure": "exposure",
    "ExposureIntervals": "exposure_estimates",
    "ExposureResults": "exposure",
    "FormatDraws": "exposure_estimates",
    "LikeliestSecrets": "prefix_tree",
    "PlantedCanaries": "canary_formats",
    "SecretRanks": "exposure",
    "TextEncoder": "encoders",
    "TokenLogProbs": "token_views",
    "TokenView": "token_views",
    "TorchTokenView": "torch_tokens",
    "WordEncoder": "encoders",
    "blind_exposure": "exposure",
    "bound_by_controls": "exposure_estimates",
    "cut_sequences": "token_views",
    "draw_from_model": "exposure_estimates",
    "encode_texts": "encoders",
    "extrapolate_exposures": "exposure_estimates",
    "find_likeliest": "prefix_tree",
    "highest_hit_rate": "exposure_law",
    "highest_mean_exposure": "exposure_law",
    "plant_canaries": "canary_formats",
    "rank_in_space": "prefix_tree",
    "score_secrets": "prefix_tree",
    "score_space": "prefix_tree",
    "to_exposures": "exposure_estimates",
}

__all__ = [
    "ByteEncoder",
    "CanaryExposure",
    "CanaryFormat",
    "CopiesExposure",
    "ExposureIntervals",
    "ExposureResults",
    "FormatDraws",
    "LikeliestSecrets",
    "PlantedCanaries",
    "SecretRanks",
    "TextEncoder",
    "TokenLogProbs",
    "TokenView",
    "TorchTokenView",
    "WordEncoder",
    "blind_exposure",
    "bound_by_controls",
    "cut_sequences",
    "draw_from_model",
    "encode_texts",
    "extrapolate_exposures",
    "find_likeliest",
    "highest_hit_rate",
    "highest_mean_exposure",
    "plant_canaries",
    "rank_in_space",
    "score_secrets",
    "score_space",
    "to_exposures",
]


__getattr__, __dir__ = load_lazily(__name__, _MODULES)


check_public_calls(__name__)
