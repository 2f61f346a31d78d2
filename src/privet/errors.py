"""Every exception that Privet raises on purpose.

::

    PrivetError
    ├── InvalidArgument (ValueError)   the argument itself is wrong: NaN, negative, not a whole number …
    ├── NotProved                      no theorem that Privet knows covers what was asked
    ├── OutOfReach (ArithmeticError)   covered, but no certified number within the limits of float64
    ├── ContradictoryBounds (ArithmeticError)   a lower bound is above its upper bound: a bug in Privet
    ├── NotEnoughMemory (MemoryError)  what was asked does not fit into memory
    ├── BudgetExceeded                 answering would spend more than the budget; nothing was spent
    ├── Unreadable (ValueError)        a document is not what it should be (format, version, field)
    ├── MissingPackage (ImportError)   a package that only this question needs is not installed
    ├── ChangedMeanwhile               another program wrote the open file; in privet.durable_files
    ├── ProgramFailed                  a file, model or recipe of the user failed, or ended the program
    ├── ReleaseFailed                  paid for and not answered; in privet.releasing
    ├── NotFinite (ArithmeticError)    a gradient is NaN or infinite; in privet.training
    ├── SearchFailed                   a search that is paid for broke off; in privet.training
    ├── ProcessFailed                  another process of a run failed; in privet.training
    └── WorkerFailed                   a process of shadow models died; in privet.attacks.shadows

A message is one sentence that names what was got and what is needed, and one that gives the fix.
No message depends on private data.
"""

import re
import shlex
import sys
from pathlib import Path

__all__ = [
    "BudgetExceeded",
    "ContradictoryBounds",
    "InvalidArgument",
    "MissingPackage",
    "NotEnoughMemory",
    "NotProved",
    "OutOfReach",
    "PrivetError",
    "ProgramFailed",
    "Unreadable",
]


class PrivetError(Exception):
    """What every deliberate error of Privet is."""


class InvalidArgument(PrivetError, ValueError):
    """An argument is outside of what it can mean."""


class NotProved(PrivetError):
    """No theorem that Privet knows covers the question, so there is no number to give."""


class OutOfReach(PrivetError, ArithmeticError):
    """The question has an answer, but float64 cannot certify it within the limits."""


class ContradictoryBounds(PrivetError, ArithmeticError):
    """Two certified bounds of one number exclude each other, so one of the two proofs or its code is
    wrong.
    """


class NotEnoughMemory(PrivetError, MemoryError):
    """What was asked for does not fit into memory."""


class BudgetExceeded(PrivetError):
    """The request would spend more than is left; nothing was spent."""


class Unreadable(PrivetError, ValueError):
    """A document does not have the format, the version or the fields that it needs."""


class MissingPackage(PrivetError, ImportError):
    """A package that only this question needs is not installed.

    The message names ``pip install 'privet[extra]'``. Where Privet runs from a clone, the command for the
    clone is added: it calls the Python that is running, and takes the builds of constraints.txt.
    """

    def __str__(self) -> str:
        message = super().__str__()
        extra = re.search(r"pip install 'privet\[(\w+)\]'", message)
        in_clone = "" if extra is None else _install_in_clone(extra[1])
        return f"{message} In this clone: {in_clone}" if in_clone else message


def _install_in_clone(extra: str) -> str:
    root = Path(__file__).resolve().parents[2]
    if not ((root / "pyproject.toml").is_file() and (root / "constraints.txt").is_file()):
        return ""
    words = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-c",
        str(root / "constraints.txt"),
        "-e",
        f"{root}[{extra}]",
    ]
    return shlex.join(words)


class ProgramFailed(PrivetError):
    """Code that Privet was given to run failed, or ended the program."""
