"""The command line, ``privet``: it parses, calls the façade and prints, and nothing else.

Exit codes: 0 for an answer, 1 where an audit finds more than ``--fail-above`` allows, 2 for a question that has no answer (why is
one sentence, and the fix another).
"""

import os
import sys
import warnings
from collections.abc import Sequence
from io import TextIOWrapper

from privet.cli.output import Answer, write_answer, write_error
from privet.cli.parser import arguments_from
from privet.errors import OutOfReach, PrivetError

__all__ = ["main"]

_REFUSED = 2
_INTERRUPTED = 130
_PIPE_CLOSED = 141  # what a shell reports of a program that a closed pipe ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    >>> main(["account", "--noise-multiplier", "10", "--steps", "100"])  # says on stderr that δ is missing
    2
    """
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8")  # ε, δ and ≤ also where the locale has none of them
    try:
        return _answered(words, as_json="--json" in words)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to flush at exit
        return _PIPE_CLOSED
    except KeyboardInterrupt:
        return _INTERRUPTED
    except SystemExit as finished:  # argparse has printed --help or --version
        return finished.code if isinstance(finished.code, int) else 0


def _answered(words: list[str], *, as_json: bool) -> int:
    try:
        answer = _run(words)
        write_answer(answer, as_json=as_json)
    except PrivetError as refused:
        write_error(refused, as_json=as_json)
        return _REFUSED
    sys.stdout.flush()
    return answer.code


def _run(words: list[str]) -> Answer:
    arguments = arguments_from(words)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # overflow in a tail is handled, not told
            answer: Answer = arguments.command(arguments)
    except (ArithmeticError, MemoryError, RecursionError) as failed:
        if isinstance(failed, PrivetError):
            raise
        raise OutOfReach(
            f"These parameters are beyond what float64 can account for ({type(failed).__name__}). "
            f"Check them, or give less extreme ones."
        ) from failed
    return answer
