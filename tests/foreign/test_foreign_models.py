"""Models of other packages, tiny and with random weights: clipped sums are those of a loop over the examples.

Skipped where the packages are not installed; nothing is downloaded.
"""

import pytest
import torch
from torch import nn

from privet.training.per_example import ClippedSums, per_example_loss

LOSS = per_example_loss(nn.CrossEntropyLoss())
SMALL = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
    "num_labels": 3,
    "pad_token_id": 0,
}
TEXT = {
    "Bert": {},
    "DistilBert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24},
    "Albert": {"embedding_size": 8},
    "Deberta": {},
    "MPNet": {},
    "Longformer": {"attention_window": 4},
    "ModernBert": {"global_attn_every_n_layers": 2, "local_attention": 4},
    "GPT2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32},
    "OPT": {"ffn_dim": 24, "word_embed_proj_dim": 16},
    "Bloom": {"n_layer": 2, "n_head": 2},
    "Llama": {"num_key_value_heads": 1},
}
PICTURES = {"image_size": 16, "patch_size": 4, "num_channels": 3, "num_labels": 3}


class Flat:
    def __init__(self, bound):
        self.bound = self.ceiling = bound

    def factors(self, squared_norms):
        return (self.bound / squared_norms.sqrt()).clamp(max=1.0)


class Logits(nn.Module):
    """Token numbers with a length each, or pictures, to logits."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, lengths=None):
        if lengths is None:
            return self.model(pixel_values=x).logits
        mask = (torch.arange(x.shape[1]) < lengths[:, None]).long()
        return self.model(input_ids=x, attention_mask=mask).logits


def check(model, draw):
    model = model.double().eval()  # dropout off, so that a loop sees the same gradients
    parameters = list(model.parameters())
    sums = None
    for batch in (6, 5, 7):
        inputs, targets = draw(batch), torch.randint(0, 3, (batch,))
        rows = []
        for i in range(batch):
            value = LOSS(model(*[x[i : i + 1] for x in inputs]), targets[i : i + 1]).sum()
            found = torch.autograd.grad(value, parameters, allow_unused=True)
            each = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]
            rows.append(torch.cat([g.flatten() for g in each]))
        lengths = torch.stack(rows).norm(dim=1)
        if sums is None:
            sums = ClippedSums(model, LOSS, Flat(float(lengths.median())))
        bound = sums.clipping.bound
        total = sum(row * min(1.0, bound / float(n)) for row, n in zip(rows, lengths, strict=True))
        out = sums.layout.zeros()
        norms = sums.add(inputs, targets, out)
        assert float(((norms.sqrt() - lengths).abs() / lengths).max()) < 1e-5
        assert float((out - total).norm()) < 1e-5 * bound


@pytest.fixture
def transformers(packages):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield packages.transformers


@pytest.mark.parametrize("kind", TEXT)
def test_models_of_text(kind, transformers):
    config = getattr(transformers, f"{kind}Config")(**{**SMALL, **TEXT[kind]})
    model = getattr(transformers, f"{kind}ForSequenceClassification")(config)
    check(Logits(model), lambda n: (torch.randint(3, 50, (n, 6)), torch.randint(2, 7, (n,))))


@pytest.mark.parametrize("kind", ["ViT", "DeiT", "Beit", "Dinov2"])
def test_models_of_pictures(kind, transformers):
    small = {k: v for k, v in SMALL.items() if k.startswith(("hidden", "num_", "inter"))}
    config = getattr(transformers, f"{kind}Config")(**{**small, **PICTURES})
    model = getattr(transformers, f"{kind}ForImageClassification")(config)
    check(Logits(model), lambda n: (torch.randn(n, 3, 16, 16).double(),))
