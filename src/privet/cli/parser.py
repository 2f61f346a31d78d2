"""The command-line parser: which commands there are, and which options each one takes.

A command is a module of this package with ``run(arguments) -> CliAnswer``. It loads when it runs, so that
``--help`` is quick.
"""

import argparse
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn, final

from privet import __version__
from privet.cli.exit_codes import EXIT_CODES
from privet.cli.options_accounting import add_account_options, add_calibrate_options, add_explain_options
from privet.cli.options_curator import add_curator_options
from privet.cli.options_federated import add_federated_options
from privet.cli.options_models import (
    add_audit_options,
    add_compare_options,
    add_demo_options,
    add_train_options,
    add_verify_options,
)
from privet.cli.options_tables import (
    add_audit_table_options,
    add_ledger_options,
    add_release_options,
    add_synthesize_options,
)
from privet.cli.options_texts import add_audit_text_options, add_text_options
from privet.cli.output import CliAnswer
from privet.errors import InvalidArgument

__all__ = ["parse_arguments"]

_COMMANDS: tuple[tuple[str, str, Callable[[argparse.ArgumentParser], None]], ...] = (
    ("account", "what a mechanism or a ledger leaks at most, and at least", add_account_options),
    ("calibrate", "the noise, rate or steps that just reach a target", add_calibrate_options),
    ("explain", "what a guarantee means for a person", add_explain_options),
    ("release", "statistics of a table, with noise, error bars and what they cost", add_release_options),
    (
        "synthesize",
        "a synthetic table that answers many questions, and what it costs",
        add_synthesize_options,
    ),
    ("ledger", "what a ledger file is, and the one way to change its budget", add_ledger_options),
    (
        "train",
        "train a model with differential privacy, and write its weights and its ledger",
        add_train_options,
    ),
    ("audit", "attack a model, bound its leakage from both sides, and report", add_audit_options),
    (
        "audit-table",
        "who could be found in a table before it is published, and what it tells",
        add_audit_table_options,
    ),
    (
        "audit-text",
        "which texts, authors, passages and secrets a language model gives away",
        add_audit_text_options,
    ),
    ("verify", "whether a model, data and a ledger are those that a report is about", add_verify_options),
    ("compare", "defences by attacks that know them, or the models of several reports", add_compare_options),
    ("demo", "plain and private models, attacked and bounded (a minute or two)", add_demo_options),
    (
        "curator",
        "answer questions of analysts within a durable budget: over HTTP, with pages",
        add_curator_options,
    ),
    ("text", "language models of invented letters, attacked and bounded (three minutes)", add_text_options),
    (
        "federated",
        "clients that train together under four defences, attacked (a minute or two)",
        add_federated_options,
    ),
)

_EXAMPLES = """\
examples:
  privet account --noise-multiplier 1.1 --sampling-rate 256/60000 --steps 14063 --delta 1e-5
  privet account --noise-multiplier 1.1 --batch-size 256 --dataset-size 60000 --epochs 60 --delta 1e-6
  privet account ledger.json --delta 1e-5
  privet calibrate --epsilon 3 --delta 1e-5 --sampling-rate 0.004 --steps 1000
  privet explain --epsilon 3 --delta 1e-5 --plot out.svg
  privet release data.csv --privacy-unit user_id --count --mean age:0:100 --epsilon 1
  privet synthesize data.csv --column sex:f,m --bins age:0:100:10 --epsilon 1 --delta 1e-6 --out synthetic.csv
  privet ledger ledger.json --change-budget 2 --reason 'second wave of the survey'
  privet train my_model.py --epsilon 3 --delta 1e-5 --epochs 5 --out model.pt
  privet audit my_model.py --references 16 --out report.html
  privet audit --members m.csv --nonmembers n.csv --fail-above tpr@0.001=0.05
  privet audit-table data.csv --quasi zip,birth,sex --secret disease
  privet audit-text my_model.py --out report.html
  privet verify report.json my_model.py
  privet compare plain.json private.json
  privet compare study.py --references 16 --out defences.html
  privet demo
  privet text demo
  privet federated demo
  privet curator demo
"""


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line. ``command`` of the result is the function to call with it."""
    return _make_parser().parse_args(_join_negative_numbers(words) or ["--help"])


@final
class _Parser(argparse.ArgumentParser):
    """A parser whose errors are Privet's."""

    def error(self, message: str) -> NoReturn:
        sentence = message.removeprefix("argument ").replace(": must", " must")
        raise InvalidArgument(
            f"{sentence[:1].upper()}{sentence[1:]}. Run '{self.prog} --help' to see what it takes."
        )


def _make_parser() -> _Parser:
    parser = _Parser(
        prog="privet",
        description="How much does this leak, what is the proof, and what should I do about it?",
        epilog=f"{_EXAMPLES}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"privet {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="command", required=True)
    for name, purpose, add_options in _COMMANDS:
        add_options(_add_command(commands, name, purpose))
    return parser


# argparse names no such type
def _add_command(commands: Any, name: str, purpose: str) -> _Parser:  # noqa: ANN401
    command: _Parser = commands.add_parser(
        name,
        help=purpose,
        description=f"{purpose[:1].upper()}{purpose[1:]}.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    command.set_defaults(command=_load_when_run(name))
    return command


def _load_when_run(name: str) -> Callable[[argparse.Namespace], CliAnswer]:
    def run(arguments: argparse.Namespace) -> CliAnswer:
        answer: CliAnswer = import_module(f"privet.cli.{name.replace('-', '_')}").run(arguments)
        return answer

    return run


def _join_negative_numbers(words: Sequence[str]) -> list[str]:
    """Write ``--delta -1e-5`` as ``--delta=-1e-5``, so that argparse reads a negative number and not an
    option.
    """
    joined: list[str] = []
    for word in words:
        negative = re.fullmatch(r"-(\.?\d.*|inf(inity)?|nan)", word, re.IGNORECASE)
        if negative and joined and re.fullmatch(r"--[a-z-]+", joined[-1]):
            joined[-1] = f"{joined[-1]}={word}"
        else:
            joined.append(word)
    return joined
