"""The packages that define the foreign models, imported once, so that every process starts with them in memory."""

import torch

for operator in ("nms", "qnms"):
    # A torchvision that was built for another torch does not define them; timm and transformers import it.
    if not hasattr(torch.ops.torchvision, operator):
        signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        torch.library.define(f"torchvision::{operator}", signature)

import timm  # noqa: E402
import transformers  # noqa: E402

for kind in ("Bert", "GPT2", "Llama", "Gemma", "T5", "Bart", "ViT"):
    getattr(transformers, f"{kind}Model")
transformers.logging.set_verbosity_error()

__all__ = ["timm", "transformers"]
