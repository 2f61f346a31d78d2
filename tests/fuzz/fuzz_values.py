"""Values that a caller should not give, and how each is made. None of them is shared between calls."""

import collections
import decimal
import fractions
import io
import math
import pathlib

import numpy as np
import torch

MARK = "s3cr3t"  # stands in every text: no message about data may repeat it


class OwnError(Exception):
    """What the caller's own functions raise. It may pass through."""


class NoRepr:
    """Its repr, its text and its comparison fail."""

    def __repr__(self):
        raise ZeroDivisionError(MARK)

    __str__ = __repr__

    def __eq__(self, other):
        raise ZeroDivisionError(MARK)

    def __hash__(self):
        raise ZeroDivisionError(MARK)


class NoArray:
    """It promises to be an array, a list and a number, and is not."""

    shape = (3,)
    ndim = 1

    def __array__(self, *args, **named):
        raise ZeroDivisionError(MARK)

    def __len__(self):
        raise ZeroDivisionError(MARK)

    def __iter__(self):
        raise ZeroDivisionError(MARK)

    def __float__(self):
        raise ZeroDivisionError(MARK)

    def __index__(self):
        raise ZeroDivisionError(MARK)

    def __bool__(self):
        raise ZeroDivisionError(MARK)

    def __fspath__(self):
        raise ZeroDivisionError(MARK)


class NoClass:
    """It fails when it is asked for its class or for any attribute."""

    def __getattribute__(self, name):
        raise ZeroDivisionError(MARK)


class Endless(collections.abc.Sequence):
    """A list that says it is short and is endless."""

    def __len__(self):
        return 3

    def __getitem__(self, place):
        if isinstance(place, int) and place > 10**4:
            raise ZeroDivisionError(MARK)
        return 1.0


def _nested():
    found = []
    for _ in range(5000):
        found = [found]
    return found


def _cyclic():
    found = []
    found.append(found)
    return found


def _raises(*args, **named):
    raise OwnError(MARK)


HOSTILE = {
    "None": lambda: None,
    "true": lambda: True,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "minus inf": lambda: -math.inf,
    "minus": lambda: -1.0,
    "minus one": lambda: -1,
    "zero": lambda: 0,
    "zero float": lambda: 0.0,
    "tiny": lambda: 5e-324,
    "large": lambda: 1.7e308,
    "billions": lambda: 3 * 10**9,
    "trillion": lambda: 10**12,
    "beyond int64": lambda: 2**63,
    "beyond float": lambda: 10**400,
    "beyond text": lambda: 10**5000,
    "minus beyond": lambda: -(10**5000),
    "complex": lambda: 1 + 2j,
    "decimal": lambda: decimal.Decimal("NaN"),
    "fraction": lambda: fractions.Fraction(1, 3),
    "text": lambda: MARK,
    "empty text": lambda: "",
    "surrogate": lambda: f"\ud800{MARK}\udfff",
    "nul": lambda: f"a\0{MARK}",
    "escape": lambda: f"\x1b[2J\u202e{MARK}\r\n",
    "long text": lambda: MARK * 20_000,
    "bytes": lambda: b"\xff\x00",
    "path": lambda: pathlib.Path("\0"),
    "empty list": list,
    "empty tuple": tuple,
    "empty dict": dict,
    "empty set": frozenset,
    "list": lambda: [1, "a", None, math.nan],
    "ragged": lambda: [[1.0], [1.0, 2.0], "x"],
    "list of texts": lambda: [MARK, "\ud800"],
    "tuple of None": lambda: (None, None),
    "huge list": lambda: [10**400] * 3,
    "dict": lambda: {MARK: None, 3: object()},
    "nested": _nested,
    "cyclic": _cyclic,
    "range": lambda: range(10**18),
    "generator": lambda: (number for number in (1, 2, 3)),
    "endless": Endless,
    "file": lambda: io.StringIO(MARK),
    "object": object,
    "class": lambda: int,
    "module": lambda: math,
    "lambda": lambda: lambda *args, **named: None,
    "raises": lambda: _raises,
    "no repr": NoRepr,
    "no array": NoArray,
    "no class": NoClass,
    "array": lambda: np.arange(3.0),
    "empty array": lambda: np.empty((0, 3)),
    "scalar array": lambda: np.array(1.5),
    "array of nan": lambda: np.full((4, 2), np.nan),
    "array of objects": lambda: np.array([object(), None, MARK], dtype=object),
    "array of texts": lambda: np.array([MARK, "b"]),
    "array of complex": lambda: np.array([1j]),
    "array of axes": lambda: np.zeros((1,) * 20),
    "masked": lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
    "date": lambda: np.datetime64("NaT"),
    "float16": lambda: np.float16("nan"),
    "int8": lambda: np.int8(-1),
    "uint64": lambda: np.uint64(2**64 - 1),
    "tensor": lambda: torch.zeros(3),
    "scalar tensor": lambda: torch.tensor(-1),
    "empty tensor": lambda: torch.zeros(0, 3),
    "meta tensor": lambda: torch.zeros(3, device="meta"),
    "sparse tensor": lambda: torch.eye(3).to_sparse(),
    "tensor of nan": lambda: torch.full((4, 2), math.nan),
}


class Returns(torch.nn.Module):
    """A model that does something else than to answer."""

    def __init__(self, answer):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        self.answer = answer

    def forward(self, rows):
        return self.answer(self.layer(rows))


MODELS = {
    "raises": lambda: Returns(_raises),
    "None": lambda: Returns(lambda out: None),
    "nan": lambda: Returns(lambda out: out * math.nan),
    "inf": lambda: Returns(lambda out: out / 0),
    "text": lambda: Returns(lambda out: MARK),
    "tuple": lambda: Returns(lambda out: (out, out)),
    "dict": lambda: Returns(lambda out: {"logits": out}),
    "scalar": lambda: Returns(lambda out: out.sum()),
    "fewer rows": lambda: Returns(lambda out: out[:1]),
    "one more row": lambda: Returns(lambda out: torch.cat([out, out[:1]])),
    "no classes": lambda: Returns(lambda out: out[:, :0]),
    "three axes": lambda: Returns(lambda out: out[:, :, None]),
    "integers": lambda: Returns(lambda out: out.long()),
    "complex": lambda: Returns(lambda out: torch.complex(out, out)),
    "detached": lambda: Returns(lambda out: out.detach()),
    "numpy": lambda: Returns(lambda out: out.detach().numpy()),
    "no parameters": torch.nn.Flatten,
    "other width": lambda: torch.nn.Linear(5, 2),
    "lazy": lambda: torch.nn.LazyLinear(2),
    "half": lambda: torch.nn.Linear(3, 2).half(),
    "meta": lambda: torch.nn.Linear(3, 2, device="meta"),
    "frozen": lambda: torch.nn.Linear(3, 2).requires_grad_(False),
}
