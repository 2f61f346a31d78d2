"""Models that others wrote: the second table of the bench.

They are built from the definitions of transformers and timm, or from a paper in torch's own layers (``foreign_nets``), with
random weights and without dropout, and run as they come. Nothing is downloaded.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from foreign_nets import (
    EncoderClassifier,
    FTTransformer,
    PackedBiLSTM,
    UNet,
    WideDeep,
    categories_and_numbers,
    padded_tokens,
)
from models import Task, image, tokens
from torch import Tensor, nn

LOTS = (16, 32, 128)
BIG = "gemma-50k"  # for its memory alone
LENGTH = 64
VOCABULARY = 2000
SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "num_attention_heads": 4,
    "max_position_embeddings": LENGTH,
}
BERT = {"vocab_size": 30522, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512}
DECODER = {"num_hidden_layers": 4, "num_key_value_heads": 2, "intermediate_size": 352, "use_cache": False}
GPT2 = {"n_embd": 128, "n_layer": 4, "n_head": 4, "n_positions": LENGTH, "use_cache": False}
GEMMA = {**DECODER, "num_key_value_heads": 1, "head_dim": 32}
LARGE = {**GEMMA, "vocab_size": 50_000, "max_position_embeddings": 32}
HEADS = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
BART = {
    "d_model": 128,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 512,
    "decoder_ffn_dim": 512,
    **HEADS,
}
NO_DROPOUT = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "attention_dropout",
    "dropout",
    "dropout_rate",
    "activation_dropout",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
    "classifier_dropout",
)


class Logits(nn.Module):
    """The logits of a model of transformers: of token numbers, or of pictures."""

    def __init__(self, model: nn.Module, name: str = "input_ids") -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, x: Tensor) -> Tensor:
        return self.model(**{self.name: x}).logits


class Translation(nn.Module):
    """An encoder and a decoder: the first half of a row is read, the second half is written."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        read, written = ids.chunk(2, 1)
        return self.model(input_ids=read, decoder_input_ids=written, use_cache=False).logits


def _hugging_face(
    kind: str, head: str, wrap: Callable[[nn.Module], nn.Module] = Logits, **sizes: Any
) -> nn.Module:
    from foreign_packages import transformers

    config = getattr(transformers, f"{kind}Config")(**sizes)
    for name in NO_DROPOUT:
        if getattr(config, name, None) is not None:
            setattr(config, name, 0.0)
    return wrap(getattr(transformers, f"{kind}{head}")(config)).train()


def _timm(name: str, **options: Any) -> nn.Module:
    from foreign_packages import timm

    groups = options.pop("groups", None)
    if groups is not None:
        from timm.layers import GroupNormAct

        options["norm_layer"] = partial(GroupNormAct, num_groups=groups)
    return timm.create_model(name, num_classes=10, **options).train()


def _second_half(ids: Tensor) -> Tensor:
    return ids.chunk(2, 1)[1].contiguous()


def _pixels(pictures: Tensor) -> Tensor:
    return torch.randint(0, 4, (len(pictures), *pictures.shape[2:]))


def _text(
    title: str, kind: str, head: str, classes: int | None = None, lots: tuple[int, ...] = LOTS, **sizes: Any
) -> Task:
    sizes = {**SMALL, **sizes}
    draw = tokens(sizes["vocab_size"], sizes["max_position_embeddings"])
    return Task(title, partial(_hugging_face, kind, head, **sizes), draw, classes, lots)


def _translation(title: str, kind: str, **sizes: Any) -> Task:
    make = partial(
        _hugging_face, kind, "ForConditionalGeneration", Translation, vocab_size=VOCABULARY, **sizes
    )
    return Task(title, make, tokens(VOCABULARY, LENGTH), None, LOTS, targets=_second_half)


def _pictures(title: str, name: str, size: int = 32, tolerance: float = 2e-3, **options: Any) -> Task:
    make = partial(_timm, name, **options)
    return Task(title, make, image(3, size, size), 10, LOTS, tolerance=tolerance)


ROUGH = 2e-2  # in float32 a plain loop over examples of this model is as far from one in float64: 8e-3
VIT = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
PATCHES = {"image_size": 32, "patch_size": 4, "num_labels": 10}
T5 = {"d_model": 128, "d_kv": 32, "d_ff": 512, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4}

FOREIGN = {
    "bert-tiny": _text("BERT-tiny", "Bert", "ForSequenceClassification", 2, **BERT),
    "gpt2-mini": _text("GPT-2-mini, tied", "GPT2", "LMHeadModel", **GPT2),
    "llama-mini": _text("Llama-mini", "Llama", "ForCausalLM", **DECODER),
    "gemma-mini": _text("Gemma-mini", "Gemma", "ForCausalLM", **GEMMA),
    "t5-mini": _translation("T5-mini", "T5", **T5),
    "bart-mini": _translation("BART-mini", "Bart", max_position_embeddings=LENGTH, **BART),
    "vit-timm": _pictures("ViT of timm", "vit_tiny_patch16_224", img_size=32, patch_size=4, depth=4),
    "vit-hf": Task(
        "ViT of transformers",
        partial(
            _hugging_face,
            "ViT",
            "ForImageClassification",
            partial(Logits, name="pixel_values"),
            **VIT,
            **PATCHES,
        ),
        image(3, 32, 32),
        10,
        LOTS,
    ),
    "resnet18-gn": _pictures("ResNet-18-GN", "resnet18", norm_layer="groupnorm"),
    "resnet50-gn": _pictures("ResNet-50-GN", "resnet50_gn"),
    "mobilenetv2-gn": _pictures("MobileNetV2-GN", "mobilenetv2_100", 64, ROUGH, groups=8),
    "convnext": _pictures("ConvNeXt-atto", "convnext_atto", 64),
    "densenet-gn": _pictures("DenseNet-121-GN", "densenet121", norm_layer="groupnorm"),
    "unet-transposed": Task(
        "U-Net, transposed", partial(UNet, transposed=True), image(3, 32, 32), None, LOTS, targets=_pixels
    ),
    "unet-upsampling": Task(
        "U-Net, upsampling", partial(UNet, transposed=False), image(3, 32, 32), None, LOTS, targets=_pixels
    ),
    "wide-deep": Task("wide & deep", WideDeep, categories_and_numbers(), 2, LOTS),
    "encoder": Task("TransformerEncoder", EncoderClassifier, padded_tokens(VOCABULARY, LENGTH), 4, LOTS),
    "bilstm-packed": Task("BiLSTM, packed", PackedBiLSTM, padded_tokens(VOCABULARY, LENGTH), 4, LOTS),
    "ft-transformer": Task("FT-Transformer", FTTransformer, image(24), 4, LOTS),
    BIG: _text("Gemma-like, vocabulary 50k", "Gemma", "ForCausalLM", lots=(32,), **LARGE),
}
