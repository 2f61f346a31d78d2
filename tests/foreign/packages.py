"""The packages of the models. A test is skipped, with the reason, where one is not installed."""

import pytest
import torch


class Packages:
    """``Packages().timm`` is the package timm."""

    def __getattr__(self, name):
        """Import it. A torchvision that was built for another torch lacks two operators, which no test needs."""
        if not hasattr(torch.ops.torchvision, "nms"):
            for operator in ("nms", "qnms"):
                arguments = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
                torch.library.define(f"torchvision::{operator}", arguments)
        package = pytest.importorskip(name, exc_type=ImportError)
        if name == "transformers":
            package.logging.set_verbosity_error()
        return package
