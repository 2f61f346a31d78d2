"""Models of timm, tiny and with random weights, with pictures and labels as a tuple of tensors."""

from functools import partial

import torch

COUNT, SIDE, LABELS = 16, 32, 3

FLAT = {"img_size": SIDE, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}
BLOCKS = {"img_size": SIDE, "patch_size": 8, "num_blocks": 2, "embed_dim": 16}
STAGES = {"depths": (1, 1, 1, 1), "dims": (4, 8, 8, 8)}
WINDOWS = {
    "img_size": SIDE,
    "patch_size": 4,
    "window_size": 4,
    "embed_dim": 8,
    "depths": (1, 1),
    "num_heads": (1, 2),
}

BY_NAME = {
    "vit_tiny_patch16_224": FLAT,
    "deit_tiny_patch16_224": FLAT,
    "vit_base_patch16_clip_224": FLAT,
    "beit_base_patch16_224": FLAT,
    "eva02_tiny_patch14_224": FLAT,
    "cait_xxs24_224": FLAT | {"depth": 1, "depth_token_only": 1},
    "swin_tiny_patch4_window7_224": WINDOWS,
    "convnext_atto": STAGES,
    "convnextv2_atto": STAGES,
    "mobilenetv2_050": {},
}
BY_CLASS = {
    "MLP mixer": lambda timm: timm.models.MlpMixer(num_classes=LABELS, **BLOCKS),
    "ResMLP": lambda timm: timm.models.MlpMixer(
        num_classes=LABELS,
        block_layer=timm.models.mlp_mixer.ResBlock,
        norm_layer=timm.models.mlp_mixer.Affine,
        mlp_ratio=4,
        **BLOCKS,
    ),
    "gMLP": lambda timm: timm.models.MlpMixer(
        num_classes=LABELS,
        block_layer=timm.models.mlp_mixer.SpatialGatingBlock,
        mlp_layer=timm.layers.GatedMlp,
        mlp_ratio=6,
        **BLOCKS,
    ),
    "PoolFormer": lambda timm: timm.models.MetaFormer(
        num_classes=LABELS, norm_layers=timm.layers.GroupNorm1, use_mlp_head=False, **STAGES
    ),
    "ResNetV2 with standardised weights": lambda timm: timm.models.ResNetV2(
        layers=(1, 1), channels=(128, 256), stem_chs=32, num_classes=LABELS
    ),
    "ResNet with group norm": lambda timm: timm.models.ResNet(
        timm.models.resnet.BasicBlock,
        (1, 1, 1, 1),
        channels=(8, 8, 16, 16),
        num_classes=LABELS,
        norm_layer=partial(timm.layers.GroupNorm, num_groups=8),
    ),
    "ResNet": lambda timm: timm.models.ResNet(
        timm.models.resnet.BasicBlock, (1, 1, 1, 1), channels=(8, 8, 16, 16), num_classes=LABELS
    ),
}


def _with_data(make):
    def made(packages):
        return make(packages.timm), (torch.randn(COUNT, 3, SIDE, SIDE), torch.randint(0, LABELS, (COUNT,)))

    return made


def _named(name, settings):
    return lambda timm: timm.create_model(name, num_classes=LABELS, **settings)


MODELS = {
    **{f"timm {name}": _with_data(_named(name, settings)) for name, settings in BY_NAME.items()},
    **{f"timm {name}": _with_data(make) for name, make in BY_CLASS.items()},
}
REFUSED = {"timm ResNet": "BatchNorm", "timm mobilenetv2_050": "BatchNorm"}
