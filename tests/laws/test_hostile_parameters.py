"""Bare parameters in complex products and in slices from the end: exact against a loop over the examples.

A hostile review found both. The product of Fourier coefficients with a bare parameter (GFNet, FNO) was followed
without the conjugate of the factor: the norms were right and the clipped sums were wrong. And torch saves a
negative start of a slice as a large unsigned number: ``w[-6:]`` failed with a foreign error, and ``w[-1:]`` had
no gradient at all. A model with dropout was accepted with it, because the test of examples alone did not run
there.
"""

import pytest
import torch
from torch import nn

from privet.training.per_example import ClippedSums, per_example_loss

LOSS = per_example_loss(nn.CrossEntropyLoss())


class Flat:
    ceiling = 0.2

    def factors(self, squared_norms):
        return (0.2 / squared_norms.sqrt()).clamp(max=1.0)


class Model(nn.Module):
    def __init__(self, body, shape):
        super().__init__()
        self.body, self.first, self.w = body, nn.Linear(6, 6), nn.Parameter(torch.randn(shape) * 0.5)

    def forward(self, x):
        return self.body(self.w, self.first(x).tanh()).flatten(1).unfold(1, 3, 1).mean(1)


def rfft(h):
    return torch.fft.rfft(h, dim=1)


def irfft(c):
    return torch.fft.irfft(c, n=5, dim=1)


view = torch.view_as_complex
BODIES = {
    "filter of frequencies": ((3, 6, 2), lambda w, h: irfft(rfft(h) * view(w))),
    "matrix for each frequency": (
        (6, 6, 3, 2),
        lambda w, h: irfft(torch.einsum("nkd,dek->nke", rfft(h), view(w))),
    ),
    "matrix": ((6, 6, 2), lambda w, h: (rfft(h) @ view(w)).abs()),
    "vector": ((6, 2), lambda w, h: (rfft(h) @ view(w)).abs()),
    "divisor": ((6, 2), lambda w, h: (rfft(h) / (view(w) + 3)).abs()),
    "product and sum": ((6, 2), lambda w, h: torch.addcmul(view(w), rfft(h), view(w)).abs()),
    "real factor": ((6,), lambda w, h: (rfft(h) * w.tanh()).real),
    "real summand": ((6,), lambda w, h: (rfft(h) + w).abs()),
    "phase": ((6,), lambda w, h: (rfft(h) * torch.polar(w.exp(), w)).real),
    "convolution by spectra": ((5, 6), lambda w, h: irfft(rfft(h) * torch.fft.rfft(w, dim=0))),
    "condition in bytes": ((6,), lambda w, h: torch.where((h > 0).to(torch.uint8), h, w)),
    "last number": ((9,), lambda w, h: h * w[-1:]),
    "last numbers": ((9,), lambda w, h: h * w[-6:]),
    "in between": ((9,), lambda w, h: h * w[-7:-1]),
    "in steps": ((13,), lambda w, h: h + w[-12:-1:2]),
    "last row": ((3, 6), lambda w, h: h * w[-1:]),
    "last column": ((6, 3), lambda w, h: (h @ w[:, -1:]) * h),
    "rows of a matrix": ((9, 6), lambda w, h: h @ w[-6:]),
    "one row of a matrix": ((9, 6), lambda w, h: nn.functional.linear(h, w[-1:]) * h),
}


@pytest.mark.filterwarnings("ignore:where received a uint8")
@pytest.mark.parametrize("name", BODIES)
def test_bare_parameters_are_exact(name):
    shape, body = BODIES[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Model(body, shape).double()
        sums = ClippedSums(model, LOSS, Flat())
        for size in (4, 6, 5):
            x, y = torch.randn(size, 5, 6, dtype=torch.float64), torch.randint(0, 3, (size,))
            out = sums.layout.zeros()
            norms = sums.add((x,), y, out)
            rows = []
            for i in range(size):
                loss = LOSS(model(x[i : i + 1]), y[i : i + 1]).sum()
                rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, model.parameters())]))
            total = sum(r * min(1.0, 0.2 / float(r.norm())) for r in rows)
            assert torch.allclose(norms, torch.stack(rows).square().sum(1), rtol=1e-9)
            assert torch.allclose(out, total, rtol=1e-9, atol=1e-12)


def test_the_last_number_has_a_gradient_in_a_model_with_dropout():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Model(lambda w, h: nn.functional.dropout(h, 0.2) * w[-1:], (9,)).double()
        sums = ClippedSums(model, LOSS, Flat())
        out = sums.layout.zeros()
        sums.add((torch.randn(4, 5, 6, dtype=torch.float64),), torch.randint(0, 3, (4,)), out)
        gradient = sums.layout.views(out)[sums.layout.names.index("w")]
        assert bool(gradient[-1].abs() > 1e-6)
