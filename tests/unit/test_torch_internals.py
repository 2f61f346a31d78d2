"""The private parts of torch that Privet needs: each is named here, and no module but one uses any.

Tested with torch 2.13.0 (``TESTED_VERSIONS``). A torch without one of these parts fails the test of that
name.
"""

import ast
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import privet  # noqa: E402
from privet import torch_internals  # noqa: E402


def graph(operation):
    """The node of an operation on a leaf."""
    return operation(torch.ones(2, 3, requires_grad=True)).grad_fn


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


def bilinear():
    node = nn.Bilinear(3, 3, 2)(torch.ones(2, 3, requires_grad=True), torch.ones(2, 3)).grad_fn
    while not node.name().startswith("Trilinear"):
        node = node.next_functions[0][0]
    return node


# Each private part, as torch names it, and an object that must have it.
NEEDED = {
    "nn.modules.batchnorm._BatchNorm": lambda: nn.modules.batchnorm,
    "nn.modules.instancenorm._InstanceNorm": lambda: nn.modules.instancenorm,
    "nn.modules.dropout._DropoutNd": lambda: nn.modules.dropout,
    "nn.modules.conv._ConvNd": lambda: nn.modules.conv,
    "nn.modules.module._has_any_global_hook": lambda: nn.modules.module,
    "nn.utils.parametrizations._SpectralNorm": lambda: nn.utils.parametrizations,
    "utils._python_dispatch": lambda: torch.utils,
    "utils._pytree": lambda: torch.utils,
    "nn.Module._parameters": nn.Module,
    "nn.Module._modules": nn.Module,
    "nn.Module._buffers": nn.Module,
    "nn.Module._non_persistent_buffers_set": nn.Module,
    "nn.Module._forward_hooks": nn.Module,
    "nn.Module._forward_pre_hooks": nn.Module,
    "nn.Module._backward_hooks": nn.Module,
    "nn.Module._backward_pre_hooks": nn.Module,
    "nn.Conv2d._reversed_padding_repeated_twice": lambda: nn.Conv2d(1, 1, 1),
    "nn.LSTM._flat_weights_names": lambda: nn.LSTM(1, 1),
    "torch.Tensor._version": lambda: torch.ones(1),
    "torch.Tensor._is_view": lambda: torch.ones(1),
    "torch.Tensor._backward_hooks": lambda: torch.ones(1, requires_grad=True),
    "torch.Tensor._post_accumulate_grad_hooks": lambda: torch.ones(1, requires_grad=True),
    "torch._foreach_lerp_": lambda: torch,
    "torch.autograd.Variable._execution_engine": lambda: torch.autograd.Variable,
    "AddBackward0._input_metadata": lambda: graph(lambda x: x + 1),
    "Function._forward_cls": lambda: graph(Double.apply),
    "AccumulateGrad.variable": lambda: graph(lambda x: x + 1).next_functions[0][0],
    "AddBackward0._saved_alpha": lambda: graph(lambda x: x + x),
    "AddmmBackward0._saved_alpha": lambda: graph(lambda x: torch.addmm(x, torch.ones(2, 2), x)),
    "AddmmBackward0._saved_beta": lambda: graph(lambda x: torch.addmm(x, torch.ones(2, 2), x)),
    "AddmmBackward0._saved_mat1": lambda: graph(lambda x: torch.addmm(x, torch.ones(2, 2), x)),
    "AddmmBackward0._saved_mat1_sym_sizes": lambda: graph(lambda x: torch.addmm(x, torch.ones(2, 2), x)),
    "BmmBackward0._saved_self": lambda: graph(lambda x: torch.bmm(x[None], x[None].mT)),
    "ConvolutionBackward0._saved_weight": lambda: graph(lambda x: nn.Conv1d(2, 1, 1)(x[None])),
    "EmbeddingBackward0._saved_weight_sym_argsize_0": lambda: graph(
        lambda x: nn.functional.embedding(torch.tensor([0]), x)
    ),
    "IndexBackward0._saved_indices": lambda: graph(lambda x: x[torch.tensor([1])]),
    "IndexBackward0._saved_self_sym_sizes": lambda: graph(lambda x: x[torch.tensor([1])]),
    "MmBackward0._saved_self": lambda: graph(lambda x: torch.ones(2, 2) @ x),
    "MulBackward0._saved_self": lambda: graph(lambda x: x * torch.ones(3)),
    "MulBackward0._saved_other": lambda: graph(lambda x: x * torch.ones(3)),
    "SliceBackward0._saved_dim": lambda: graph(lambda x: x[:, 1:]),
    "SliceBackward0._saved_start": lambda: graph(lambda x: x[:, 1:]),
    "SliceBackward0._saved_end": lambda: graph(lambda x: x[:, 1:]),
    "SliceBackward0._saved_step": lambda: graph(lambda x: x[:, 1:]),
    "SplitBackward0._saved_split_size": lambda: graph(lambda x: x.split(1)[0]),
    "SplitWithSizesBackward0._saved_split_sizes": lambda: graph(lambda x: x.split([1, 1])[0]),
    "SumBackward1._saved_dim": lambda: graph(lambda x: x.sum(1)),
    "TrilinearBackward0._saved_i1": bilinear,
    "TrilinearBackward0._saved_i2": bilinear,
    "TrilinearBackward0._saved_i3": bilinear,
    "TrilinearBackward0._saved_expand1": bilinear,
    "TrilinearBackward0._saved_expand2": bilinear,
    "TrilinearBackward0._saved_expand3": bilinear,
    "TrilinearBackward0._saved_sumdim": bilinear,
    "ViewBackward0._saved_self_sym_sizes": lambda: graph(lambda x: x.view(6)),
}


@pytest.mark.parametrize("part", NEEDED)
def test_torch_has_what_is_needed(part):
    owner, name = part.rpartition(".")[::2]
    holder = NEEDED[part]()
    if "Backward" in owner or owner == "AccumulateGrad":
        assert owner in holder.name(), f"{part} is needed; the node of this operation is {holder.name()} now"
    tested = ", ".join(torch_internals.TESTED_VERSIONS)
    assert hasattr(holder, name), f"{part} is needed. It is there in {tested}, but not in {torch.__version__}"


def test_every_private_name_of_the_module_is_listed():
    """A mutation of the list: what ``torch_internals`` reads must be named above."""
    listed = {part.rpartition(".")[2] for part in NEEDED}
    source = Path(torch_internals.__file__).read_text(encoding="utf-8")
    used = {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
    }
    assert used
    assert used <= listed


PRIVATE = {part.rpartition(".")[2] for part in NEEDED if part.rpartition(".")[2].startswith("_")} | {
    "_saved_",
    "_C",
    "_VF",
}


def uses_of_private_torch(source):
    """Attributes of anything but ``self``, imports and strings that name a private part of torch."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in PRIVATE:
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
            yield from ((node.lineno, a.name) for a in node.names if a.name.startswith("_"))
            yield from ((node.lineno, part) for part in node.module.split(".") if part.startswith("_"))
        elif isinstance(node, ast.Constant) and str(node.value).startswith(tuple(PRIVATE)):
            yield node.lineno, node.value


def own_attributes(source):
    """Names in ``__slots__``: a class of ours may have an attribute that torch has too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__slots__":
            yield from ast.literal_eval(node.value) if not isinstance(node.value, ast.Constant) else ()


def test_no_other_module_uses_private_torch():
    package = Path(privet.__file__).parent
    found = []
    for file in sorted(package.rglob("*.py")):
        if file.name == "torch_internals.py":
            continue
        source = file.read_text(encoding="utf-8")
        if "torch" not in source and not any(name in source for name in PRIVATE):
            continue
        own = set(own_attributes(source))
        found += [
            f"{file.name}:{line}: {name}" for line, name in uses_of_private_torch(source) if name not in own
        ]
    assert not found


@pytest.mark.parametrize(
    "source",
    [
        "def f(x): return x._version",
        "from torch.nn.utils.parametrizations import _SpectralNorm",
        "y = getattr(node, '_saved_self')",
        "from torch import nn\nA = nn.modules.conv._ConvNd",
    ],
)
def test_a_use_of_private_torch_is_found(source):
    assert list(uses_of_private_torch(source))


def test_reading_the_graph():
    x = torch.ones(2, 3, requires_grad=True)
    node = (x[:, 1:] + 1).grad_fn
    sliced = node.next_functions[0][0]
    assert torch_internals.get_output_shape(node) == (2, 2)
    assert torch_internals.count_outputs(node) == 1
    assert torch_internals.get_leaf(sliced.next_functions[0][0]) is x
    assert torch_internals.get_leaf(sliced) is None
    assert torch_internals.read_saved(sliced, "start") == 1
    assert torch_internals.read_saved(sliced, "nothing", 5) == 5
    assert torch_internals.has_saved(sliced, "start")
    assert not torch_internals.has_saved(sliced, "nothing")
    names = torch_internals.saved_integer_names(sliced)
    assert {"_saved_start", "_saved_end", "_saved_dim", "_saved_self_sym_sizes"} <= set(names)
    assert torch_internals.read_integers([sliced], [(0, ("_saved_self_sym_sizes", "_saved_start"))]) == [
        2,
        2,
        3,
        1,
    ]
    assert torch_internals.get_forward_class(graph(Double.apply)) is Double
    assert torch_internals.get_forward_class(node) is None


def test_reading_tensors_and_modules():
    x = torch.zeros(2, requires_grad=True)
    before = torch_internals.get_version(x)
    with torch.no_grad():
        x.add_(1)
    assert torch_internals.get_version(x) == before + 1
    assert torch_internals.is_view(x[:1])
    assert not torch_internals.is_view(x)
    assert not torch_internals.has_gradient_hooks(x)
    x.register_hook(lambda gradient: gradient)
    assert torch_internals.has_gradient_hooks(x)
    y = torch.zeros(2, requires_grad=True)
    y.register_post_accumulate_grad_hook(lambda parameter: None)
    assert torch_internals.has_gradient_hooks(y)
    norm = nn.BatchNorm1d(2)
    norm.register_buffer("passing", torch.zeros(1), persistent=False)
    assert torch_internals.is_persistent(norm, "running_mean")
    assert not torch_internals.is_persistent(norm, "passing")
    assert isinstance(nn.SyncBatchNorm(2), torch_internals.BatchNormBase)
    assert torch_internals.get_padding(nn.Conv2d(1, 1, 3, padding=(1, 2))) == [2, 2, 1, 1]
    assert torch_internals.get_weight_names(nn.GRU(1, 1, bias=False)) == ("weight_ih_l0", "weight_hh_l0")


@pytest.mark.parametrize(
    "register",
    [
        lambda m: m.register_forward_hook(lambda *args: None),
        lambda m: m.register_forward_pre_hook(lambda *args: None),
        lambda m: m.register_full_backward_hook(lambda *args: None),
        lambda m: m.register_full_backward_pre_hook(lambda *args: None),
    ],
)
def test_hooks_are_seen(register):
    layer = nn.Linear(1, 1)
    assert not torch_internals.has_hooks(layer)
    register(layer)
    assert torch_internals.has_hooks(layer)
    assert not torch_internals.has_global_hooks()
