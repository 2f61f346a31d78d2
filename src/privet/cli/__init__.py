"""The command line, ``privet``: it parses, calls the façade and prints, and nothing else.

Exit codes: 0 for an answer where every limit held, 1 where an audit finds more than ``--fail-above`` allows, 2 for wrong use or a
question that has no answer (why is one sentence, and the fix another), 3 where something failed. See ``exit_codes``.
"""

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from io import TextIOWrapper

from privet.cli.exit_codes import ExitCode, code_of
from privet.cli.output import Answer, write_answer, write_error
from privet.cli.parser import arguments_from
from privet.errors import OutOfReach, PrivetError, ProgramFailed

__all__ = ["main"]


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
        return int(_answered(words, as_json="--json" in words))
    except BrokenPipeError:
        _drop_output()
        return ExitCode.PIPE_CLOSED
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Exception:  # a defect, or a device that cannot be written: never the code of an answer
        traceback.print_exc()
        _drop_output()
        return ExitCode.FAILED


def _answered(words: list[str], *, as_json: bool) -> int:
    try:
        try:
            arguments = arguments_from(words)
        except SystemExit:  # argparse has printed --help or --version; its errors are refusals
            sys.stdout.flush()
            return ExitCode.HELD
        arguments.words = words
        answer = _run(arguments)
        write_answer(answer, as_json=as_json)
    except PrivetError as refused:
        write_error(refused, as_json=as_json)
        return code_of(refused)
    sys.stdout.flush()
    return answer.code


def _drop_output() -> None:
    """What was not written stays unwritten: Python would try again at its exit, fail, and change the exit code."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # no file is behind it
        return


def _run(arguments: argparse.Namespace) -> Answer:
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
    except SystemExit as ended:
        raise ProgramFailed(
            f"The command must end by itself, and something that it ran called exit with {ended.code!r}. "
            f"Take that call out."
        ) from None
    return answer
