"""What a generator of pictures remembers: near-copies of training pictures among its samples.

``CopySearch`` compares samples with targets of which a coin trained some; ``near_copies`` finds samples that
come again and again; ``diffusion`` is a small model to attack, which needs torch.

Names are loaded when they are first used.
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily
from privet.public_calls import check_public_calls

if TYPE_CHECKING:
    from privet.attacks.generative.copying import CopySearch, FoundCopies
    from privet.attacks.generative.diffusion import PictureDiffusion
    from privet.attacks.generative.near_copies import find_cliques, measure_distances, pick_medoids

_MODULES = {
    "CopySearch": "copying",
    "FoundCopies": "copying",
    "PictureDiffusion": "diffusion",
    "find_cliques": "near_copies",
    "measure_distances": "near_copies",
    "pick_medoids": "near_copies",
}

__all__ = [
    "CopySearch",
    "FoundCopies",
    "PictureDiffusion",
    "find_cliques",
    "measure_distances",
    "pick_medoids",
]

__getattr__, __dir__ = load_lazily(__name__, _MODULES, needs={"PictureDiffusion": "torch"})


check_public_calls(__name__)
