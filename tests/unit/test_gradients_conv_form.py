"""Per-example gradients of convolutions by compiled loops, against autograd on one example at a time."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from privet.training.per_example.forms import conv_form
from privet.training.per_example.forms.conv_form import ConvForm
from privet.training.per_example.forms.gradient_form import OutputGradient, load_kernels
from privet.training.per_example.scratch import SMALL, Scratch

LOOPS = load_kernels("conv_loops")
needs_loops = pytest.mark.skipif(
    LOOPS is None or not LOOPS.has_wide_registers(), reason="numba or registers of 512 bits are not there"
)

# channels, outputs, kernel, stride, padding, size
SHAPES = [
    (16, 8, (3, 3), (1, 1), (1, 1), (7, 6)),
    (16, 10, (3, 3), (1, 1), (0, 0), (7, 6)),
    (32, 17, (2, 3), (2, 1), (1, 2), (6, 9)),
    (48, 3, (4, 4), (2, 3), (3, 1), (9, 8)),
    (96, 1, (1, 1), (1, 1), (0, 0), (3, 4)),
    (16, 9, (5, 5), (1, 1), (4, 4), (2, 1)),  # most rows of a window are outside
    (16, 2, (3, 3), (5, 5), (2, 2), (4, 4)),
    (1, 16, (8, 8), (2, 2), (3, 3), (14, 14)),
    (3, 32, (3, 3), (1, 1), (1, 1), (6, 7)),
    (3, 16, (7, 7), (3, 2), (2, 0), (12, 11)),
    (5, 48, (2, 5), (1, 1), (0, 2), (5, 5)),
    (1, 16, (1, 1), (1, 1), (0, 0), (4, 4)),
]


def made(shape, images=3, each=1):
    channels, outputs, kernel, stride, padding, size = shape
    torch.manual_seed(sum(kernel) + channels)
    module = nn.Conv2d(channels, outputs, kernel, stride, padding)
    x = torch.randn(images, channels, *size).contiguous(memory_format=torch.channels_last)
    g = torch.randn_like(module(x).detach())
    rows = g.unflatten(0, (images // each, each))
    ends = [padding[1], padding[1], padding[0], padding[0]]
    return module, x, g, ConvForm(x, OutputGradient(rows, own=False), module, Scratch(), ends)


def looped(module, x, g):
    weight = module.weight.detach().requires_grad_()
    found = []
    for image, gradient in zip(x.split(1), g.split(1), strict=True):
        y = F.conv2d(image, weight, None, module.stride, module.padding)
        found.append(torch.autograd.grad((y * gradient).sum(), weight)[0])
    return torch.stack(found)


@needs_loops
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_are_those_of_one_example_at_a_time(shape, monkeypatch):
    module, x, g, windows = made(shape)
    monkeypatch.setattr(ConvForm, "_window_chunks", None)  # so that nothing else is taken
    expected = looped(module, x, g)
    assert torch.allclose(windows.to_dense(), expected, rtol=1e-4, atol=1e-4)
    factors = torch.tensor([0.5, 0.0, 2.0])
    out = torch.zeros_like(module.weight)
    windows.add_sum(factors, out)
    assert torch.allclose(out, torch.einsum("b,b...->...", factors, expected), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_so_they_are_without_the_loops(shape, monkeypatch):
    monkeypatch.setattr(conv_form, "load_kernels", lambda *loops: None)
    module, x, g, windows = made(shape)
    assert torch.allclose(windows.to_dense(), looped(module, x, g), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_gram_form_and_its_sum_take_the_same_padding(shape):
    module, x, g, windows = made(shape)
    expected = looped(module, x, g)
    assert torch.allclose(
        windows._gram_squared_norms(), expected.double().flatten(1).square().sum(1), rtol=1e-4
    )
    out = torch.zeros_like(module.weight)
    windows.add_sum(torch.ones(3), out)
    assert torch.allclose(out, expected.sum(0), rtol=1e-4, atol=1e-4)


@needs_loops
@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[7]], ids=str)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_and_several_images_of_an_example(shape, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        module, x, g, windows = made(shape, images=6, each=2)
        expected = looped(module, x, g).unflatten(0, (3, 2)).sum(1)
        assert torch.allclose(windows.to_dense(), expected, rtol=1e-4, atol=1e-4)
    finally:
        torch.set_num_threads(before)


@needs_loops
def test_a_gradient_with_its_channels_first_is_brought_in_order():
    module, x, g, _ = made(SHAPES[0])
    windows = ConvForm(
        x, OutputGradient(g.contiguous().unsqueeze(1), own=False), module, Scratch(), [1, 1, 1, 1]
    )
    assert torch.allclose(windows.to_dense(), looped(module, x, g.contiguous()), rtol=1e-4, atol=1e-4)


def test_scratch_is_lent_once_in_a_pass_and_again_in_the_next():
    scratch, like = Scratch(), torch.zeros(1)
    scratch.start_pass()
    first, second = scratch.borrow(like, SMALL), scratch.borrow(like, 2, SMALL // 2)
    assert first.data_ptr() != second.data_ptr()
    scratch.start_pass()
    again = {scratch.borrow(like, SMALL).data_ptr() for _ in range(2)}
    assert again == {first.data_ptr(), second.data_ptr()}
    scratch.release(first)
    assert scratch.borrow(like, SMALL).data_ptr() == first.data_ptr()


def test_scratch_gives_up_what_a_pass_did_not_need():
    scratch, like = Scratch(), torch.zeros(1)
    for sizes in ((SMALL, 8 * SMALL), (SMALL,), ()):
        scratch.start_pass()
        for size in sizes:
            scratch.borrow(like, size)
        scratch.start_pass()
        assert len(scratch._buffers) == len(sizes)


@pytest.mark.parametrize(
    "like", [torch.zeros(1, dtype=torch.float64), torch.zeros(1, device="meta")], ids=str
)
def test_scratch_is_for_plain_numbers_alone(like):
    scratch = Scratch()
    found = scratch.borrow(like, SMALL)
    assert found.dtype == like.dtype
    assert found.device == like.device
    assert not scratch._buffers
