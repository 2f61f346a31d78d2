"""Under autocast the clip stays a clip: norms and sums are float32, whatever the passes round to."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from privet.training import ClippedSums, train
from privet.training.per_example import clipped_sums, mixed_precision

BOUND = 1e-3  # every example is clipped


class Flat:
    ceiling = None

    def factors(self, squared_norms):
        return BOUND / squared_norms.sqrt()


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.token = nn.Embedding(50, 32), nn.Parameter(torch.randn(1, 1, 32))
        self.layer, self.out = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True), nn.Linear(32, 3)

    def forward(self, ids):
        first = self.token.expand(len(ids), -1, -1)
        return self.out(self.layer(torch.cat([first, self.table(ids)], 1))[:, 0])


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cells, self.out = kind(8, 16, batch_first=True, bidirectional=True), nn.Linear(32, 3)

    def forward(self, x):
        return self.out(self.cells(x)[0][:, -1])


class Scaled(nn.Module):
    """A weight that is computed from others before it meets the examples."""

    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.utils.parametrizations.weight_norm(nn.Linear(20, 16)), nn.Linear(16, 3)

    def forward(self, x):
        return self.out(torch.relu(self.inner(x)))


def convolutions():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.GroupNorm(4, 16),
        nn.ReLU(),
        nn.Conv2d(16, 8, 3),
        nn.Flatten(),
        nn.Linear(288, 3),
    )


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(20, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 3)), (20,)),
    "convolutions": (convolutions, (3, 8, 8)),
    "encoder": (Encoder, None),
    "lstm": (lambda: Recurrent(nn.LSTM), (5, 8)),
    "gru": (lambda: Recurrent(nn.GRU), (5, 8)),
    "weight norm": (Scaled, (20,)),
}


def make(name):
    torch.manual_seed(1)
    model, shape = MODELS[name][0](), MODELS[name][1]
    x = torch.randint(0, 50, (8, 12)) if shape is None else torch.randn(8, *shape)
    return model, x, torch.arange(8) % 3


def add(sums, x, y):
    total = sums.layout.zeros()
    return sums.add((x,), y, total), total


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", MODELS)
def test_each_share_of_the_sum_has_the_clip_bound(name, dtype):
    if name == "lstm" and dtype is torch.float16:
        pytest.skip("torch has no LSTM in float16 on this processor")
    model, x, y = make(name)
    loss = nn.CrossEntropyLoss(reduction="none")
    plain = add(ClippedSums(model, loss, Flat()), x, y)[1]
    sums = ClippedSums(model, loss, Flat())
    with torch.autocast("cpu", dtype):
        _, total = add(sums, x, y)
        shares = [add(sums, x[i : i + 1], y[i : i + 1])[1] for i in range(8)]
    for share in shares:
        assert float(share.double().norm()) == pytest.approx(BOUND, rel=2e-6)
    assert float((sum(shares) - total).norm()) < 0.02 * float(total.norm())
    assert float((plain - total).norm()) < 0.05 * float(plain.norm())
    assert total.dtype is torch.float32


def test_norms_in_half_precision_would_be_found(monkeypatch):
    """The mutation: autocast stays on while norms and sums are computed."""
    monkeypatch.setattr(clipped_sums, "full_precision", lambda device: nullcontext())
    with pytest.raises((AssertionError, RuntimeError)):
        for name in MODELS:
            test_each_share_of_the_sum_has_the_clip_bound(name, torch.bfloat16)


def test_autocast_may_enclose_several_steps():
    """Autocast keeps casts of parameters; steps change the parameters."""
    model, x, y = make("encoder")
    sums = ClippedSums(model, nn.CrossEntropyLoss(reduction="none"), Flat())
    with torch.autocast("cpu", torch.bfloat16):
        for _ in range(5):
            norms, _ = add(sums, x, y)
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(torch.randn_like(parameter), alpha=0.05)
        last, _ = add(sums, x, y)
    with torch.autocast("cpu", torch.bfloat16):
        fresh, _ = add(ClippedSums(model, nn.CrossEntropyLoss(reduction="none"), Flat()), x, y)
    torch.testing.assert_close(last, fresh, rtol=0.02, atol=0)
    assert not torch.allclose(last, norms, rtol=0.02)


def test_train_runs_under_autocast():
    model, x, y = make("convolutions")
    with torch.autocast("cpu", torch.bfloat16):
        trained = train(
            model, (x.repeat(8, 1, 1, 1), y.repeat(8)), epsilon=3.0, delta=1e-3, lot_size=16, epochs=2
        )
    assert all(p.dtype is torch.float32 and bool(p.isfinite().all()) for p in trained.model.parameters())


def test_indices_and_flags_are_not_widened():
    ids = torch.arange(3)
    assert mixed_precision.widen(ids, torch.float32) is ids


@pytest.fixture
def _fast_products():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(before)


class Watched(Flat):
    """Notes the precision of products when the factors are asked for, between norms and sums."""

    def __init__(self):
        self.seen = []

    def factors(self, squared_norms):
        self.seen.append(torch.backends.mkldnn.matmul.fp32_precision)
        return super().factors(squared_norms)


@pytest.mark.usefixtures("_fast_products")
@pytest.mark.parametrize("name", ["mlp", "encoder"])
def test_norms_and_sums_multiply_in_full_precision(name):
    """A user who lets torch multiply in bfloat16 gets it for the passes, and has it afterwards."""
    model, x, y = make(name)
    if name == "mlp":
        model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 3))  # without autograd otherwise
    watched = Watched()
    sums = ClippedSums(model, nn.CrossEntropyLoss(reduction="none"), watched)
    for _ in range(3):
        add(sums, x, y)
    assert set(watched.seen) == {"ieee"}
    assert torch.get_float32_matmul_precision() == "medium"
