"""The command line, ``privet``: it parses, calls the façade and prints, and nothing else.

Exit codes: 0 for an answer where every limit holds, 1 if an audit finds more than ``--fail-above`` allows,
2 for wrong use or a question that has no answer (one sentence says why, another gives the fix), 3 if
something failed. See ``exit_codes``.
"""

import argparse
import sys
import traceback
import warnings
from collections.abc import Sequence

from privet.cli.exit_codes import ExitCode, code_of
from privet.cli.output import CliAnswer, write_answer, write_error
from privet.cli.parser import parse_arguments
from privet.cli.streams import OutputFailed, check_output, drop_output, flush_output, open_streams
from privet.errors import InvalidArgument, OutOfReach, PrivetError, ProgramFailed

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    >>> main(["account", "--noise-multiplier", "10", "--steps", "100"])  # says on stderr that δ is missing
    2
    """
    words = list(sys.argv[1:] if argv is None else argv)
    open_streams()
    try:
        return int(_answer(words, as_json="--json" in words))
    except BrokenPipeError:
        drop_output()
        return ExitCode.PIPE_CLOSED
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except OutputFailed as failed:  # also raised when an error is printed as JSON
        write_error(failed, as_json=False)
        drop_output()
        return ExitCode.FAILED
    except (
        BaseException
    ):  # a defect, or a BaseException such as a cancelled task: never return the exit code of an answer
        traceback.print_exc()
        drop_output()
        return ExitCode.FAILED


def _answer(words: list[str], *, as_json: bool) -> int:
    try:
        try:
            if any("\0" in word for word in words):
                raise InvalidArgument("An argument must not hold the character NUL, got one. Take it out.")
            arguments = parse_arguments(words)
        except SystemExit:  # argparse has printed --help or --version; its errors are refusals
            flush_output()
            return ExitCode.HELD
        arguments.words = words
        check_output()
        answer = _run(arguments)
        write_answer(answer, as_json=as_json)
    except OutputFailed:
        raise
    except PrivetError as refused:
        write_error(refused, as_json=as_json)
        return code_of(refused)
    return answer.code


def _run(arguments: argparse.Namespace) -> CliAnswer:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # overflow in a tail is handled by the accountant
            answer: CliAnswer = arguments.command(arguments)
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
