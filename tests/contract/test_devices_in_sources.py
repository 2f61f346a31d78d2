"""Sources that follow the device of the model, by reading them: no tensor of the CPU where another device may be.

Each rule has a list of the places where it does not apply, with the reason. A place that is no longer needed fails.
"""

import ast
from pathlib import Path

import pytest

TRAINING = Path(__file__).parents[2] / "src" / "privet" / "training"
FACTORIES = {
    *(
        "arange",
        "empty",
        "eye",
        "full",
        "linspace",
        "ones",
        "rand",
        "randint",
        "randn",
        "randperm",
        "tensor",
        "zeros",
    ),
    *("as_tensor", "empty_strided", "logspace"),
}

KERNELS = "a compiled loop, chosen only where is_cpu or device.type says so"
HOST_NOISE = "noise is drawn on the processor, and copied"
ON_HOST = "indices, lots and coordinates are on the processor"
EMPTY = "an array without numbers for compiled loops"

TO_NUMPY = {
    "canaries/canary_datasets.py": "scores, after .cpu()",
    "canaries/text_canaries.py": "scores, after .cpu(), and the numbers of canaries on the processor",
    "noise/gradient_noise.py": HOST_NOISE,
    "per_example/forms/conv_form.py": KERNELS,
    "per_example/forms/embedding_form.py": KERNELS,
    "per_example/forms/linear_form.py": KERNELS,
    "per_example/forms/mlp.py": KERNELS,
    "per_example/forms/single_token_linear.py": KERNELS,
    "per_example/refusals.py": "norms, where is_cpu",
    "per_example/taps/group_normalization.py": KERNELS,
    "per_example/taps/layers.py": KERNELS,
    "per_example/taps/recurrent.py": KERNELS,
    "sampling/labels.py": "labels, after .cpu()",
    "sampling/separated.py": "what a sampler has counted, which is on the processor",
    "tuning/search_mark.py": "hashes: records by force, parameters after .cpu()",
    "tuning/validation.py": "marks after .cpu(); inputs by force, to compare records",
}
NO_DEVICE = {
    "noise/correlated.py": HOST_NOISE,
    "noise/normals.py": HOST_NOISE,
    "per_example/forms/embedding_form.py": KERNELS,
    "per_example/forms/linear_form.py": KERNELS,
    "per_example/forms/mlp.py": f"{KERNELS}; {EMPTY}",
    "per_example/forms/single_token_linear.py": EMPTY,
    "per_example/layout.py": ON_HOST,
    "per_example/graph/couplings.py": "a number in the place of a loss that is none, for the refusal",
    "per_example/special_losses.py": "torch takes lengths of CTC on the processor",
    "per_example/taps/packed_rows.py": "torch keeps the sizes of packed batches on the processor",
    "per_example/scratch.py": "memory of the processor, lent where is_cpu",
}
SAYS_CPU = {
    "double_precision.py": "the processor has float64",
    "loop/checkpoint.py": "a file is read to the processor, and copied to the model",
    "loop/distributed.py": "gloo works on the processor",
    "loop/step.py": "asks whether data must be moved",
    "noise/gradient_noise.py": HOST_NOISE,
    "per_example/forms/embedding_form.py": KERNELS,
    "per_example/forms/mlp.py": KERNELS,
    "per_example/forms/single_token_linear.py": KERNELS,
    "per_example/mixed_precision.py": "the settings of torch by device",
}
FLOAT64 = {
    "canaries/canary_datasets.py": "evidence, on the processor",
    "canaries/text_canaries.py": "scores, after .cpu()",
    "double_precision.py": "decides where float64 is",
    "loop/step.py": "canaries' own gradients, on the processor",
    "per_example/forms/embedding_form.py": KERNELS,
    "per_example/forms/gradient_form.py": "asks for the type",
    "per_example/forms/linear_form.py": KERNELS,
    "per_example/layout.py": "models may be in float64, where the device has it",
    "per_example/rounding.py": "on the processor, or a number that follows the others",
    "per_example/taps/registered.py": "asks for the type",
    "sampling/records.py": "asks for the type",
}


def called_name(node):
    """``f`` of f(…) and ``(of, f)`` of of.f(…)."""
    function = node.func
    if isinstance(function, ast.Attribute):
        return (function.value.id if isinstance(function.value, ast.Name) else "", function.attr)
    return "", function.id if isinstance(function, ast.Name) else ""


def converts_to_numpy(node):
    return isinstance(node, ast.Call) and called_name(node)[1] == "numpy" and not node.args


def makes_without_device(node):
    if not isinstance(node, ast.Call):
        return False
    owner, name = called_name(node)
    return (
        owner == "torch"
        and name in FACTORIES
        and not any(
            k.arg in ("device", "out", None)
            for k in node.keywords  # None: **options
        )
    )


def says_cpu(node):
    return (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.split(":")[0] == "cpu"
    )


def uses_float64(node):
    if isinstance(node, ast.Call) and called_name(node)[1] == "double" and not node.args:
        return True
    is_torch = (
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch"
    )
    return is_torch and node.attr in ("float64", "double")


RULES = {
    "numpy": (converts_to_numpy, TO_NUMPY, ("",)),
    "device": (makes_without_device, NO_DEVICE, ("per_example/", "noise/")),
    "cpu": (says_cpu, SAYS_CPU, ("",)),
    "float64": (uses_float64, FLOAT64, ("",)),
}


def find(rule, source):
    return [node.lineno for node in ast.walk(ast.parse(source)) if rule(node)]


def sources(folders):
    for path in sorted(TRAINING.rglob("*.py")):
        name = path.relative_to(TRAINING).as_posix()
        if name.startswith(folders) and "/kernels/" not in name:  # loops of numba have no tensors
            yield name, path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", RULES)
def test_sources_follow_the_device(name):
    rule, allowed, folders = RULES[name]
    found = {path: lines for path, source in sources(folders) if (lines := find(rule, source))}
    assert {path: lines for path, lines in found.items() if path not in allowed} == {}
    assert sorted(set(allowed) - set(found)) == []  # these need no exception any more


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        ("numpy", "x.detach().numpy()", "x.numpy_like()"),
        ("device", "torch.zeros(3, dtype=t.dtype)", "torch.zeros(3, device=t.device)"),
        ("device", "torch.arange(n)", "torch.mul(a, b, out=torch.empty(0, device=d))"),
        ("cpu", "torch.device('cpu')", "torch.device(kind)"),
        ("cpu", "x.to('cpu:0')", "x.cpu()"),
        ("float64", "x.double()", "to_float64(x)"),
        ("float64", "torch.zeros(3, dtype=torch.float64)", "np.float64(x)"),
    ],
)
def test_the_rules_find_what_they_are_for(name, bad, good):
    rule = RULES[name][0]
    assert find(rule, bad) == [1]
    assert find(rule, good) == []
