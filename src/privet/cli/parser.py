"""What may be written after ``privet``. Commands load when they run, so that ``--help`` is quick."""

import argparse
import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from importlib import import_module
from typing import Any, NoReturn, final

from privet import __version__
from privet.cli.exit_codes import EXIT_CODES
from privet.cli.output import Answer
from privet.errors import InvalidArgument

__all__ = ["arguments_from"]

_LARGEST_COUNT = 10**15
_STATISTICS = (
    ("count", "", "how many there are"),
    ("sum", "COL:LOW:HIGH", "the sum of values, each held between two bounds that you know beforehand"),
    ("mean", "COL:LOW:HIGH", "their mean"),
    ("variance", "COL:LOW:HIGH", "their variance"),
    ("quantile", "COL:Q:LOW:HIGH", "the value that a share Q of them is below; 0.5 is the median"),
    ("histogram", "COL:A,B,…", "how many have each of these values"),
    ("marginal", "COL:A,B;COL:C,D", "how many have each combination of these values"),
    ("top-k", "COL:K:A,B,…", "the K most frequent of these values"),
)
_ATTACKS = (
    *(
        "loss",
        "confidence",
        "entropy",
        "modified-entropy",
        "gap",
        "noise",
        "augmentations",
        "boundary",
        "lira",
        "offline-lira",
    ),
    *(
        "rmia",
        "offline-rmia",
        "base",
        "offline-base",
        "bavaria",
        "offline-bavaria",
        "shokri",
        "quantile",
        "gradient-norm",
    ),
    *("gradient-alignment", "layer-classifier"),
)  # as privet.attacks.membership.registry has them, which is not loaded for --help
_EXAMPLES = """\
examples:
  privet account --noise-multiplier 1.1 --sampling-rate 256/60000 --steps 14063 --delta 1e-5
  privet account ledger.json --delta 1e-5
  privet calibrate --epsilon 3 --delta 1e-5 --sampling-rate 0.004 --steps 1000
  privet explain --epsilon 3 --delta 1e-5 --plot out.svg
  privet release data.csv --privacy-unit user_id --count --mean age:0:100 --epsilon 1
  privet ledger ledger.json --change-budget 2 --reason 'second wave of the survey'
  privet audit my_model.py --references 16 --out report.html
  privet audit --members m.csv --nonmembers n.csv --fail-above tpr@0.001=0.05
  privet verify report.json my_model.py
  privet demo
"""


def arguments_from(words: Sequence[str]) -> argparse.Namespace:
    """The parsed command line; ``command`` in it is what to call with it."""
    parser = _parser()
    return parser.parse_args(_joined(words) or ["--help"])


@final
class _Parser(argparse.ArgumentParser):
    """A parser whose errors are Privet's."""

    def error(self, message: str) -> NoReturn:
        told = message.removeprefix("argument ").replace(": must", " must")
        raise InvalidArgument(f"{told[:1].upper()}{told[1:]}. Run '{self.prog} --help' to see what it takes.")


def _parser() -> _Parser:
    parser = _Parser(
        prog="privet",
        description="How much does this leak, what is the proof, and what should I do about it?",
        epilog=f"{_EXAMPLES}\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"privet {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="command", required=True)
    _account(_command(commands, "account", "what a mechanism or a ledger leaks at most, and at least"))
    _calibrate(_command(commands, "calibrate", "the noise, rate or steps that just reach a target"))
    _explain(_command(commands, "explain", "what a guarantee means for a person"))
    _release(
        _command(commands, "release", "statistics of a table, with noise, error bars and what they cost")
    )
    _ledger_file(_command(commands, "ledger", "what a ledger file is, and the one way to change its budget"))
    _audit(_command(commands, "audit", "attack a model, bound its leakage from both sides, and report"))
    _verify(
        _command(commands, "verify", "whether a model, data and a ledger are those that a report is about")
    )
    _demo(_command(commands, "demo", "plain and private models, attacked and bounded (a minute or two)"))
    return parser


def _command(commands: Any, name: str, purpose: str) -> _Parser:  # noqa: ANN401 - argparse names no such type
    command: _Parser = commands.add_parser(
        name,
        help=purpose,
        description=f"{purpose[:1].upper()}{purpose[1:]}.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    command.set_defaults(command=_loaded(name))
    return command


def _loaded(name: str) -> Callable[[argparse.Namespace], Answer]:
    def run(arguments: argparse.Namespace) -> Answer:
        answer: Answer = import_module(f"privet.cli.{name}").run(arguments)
        return answer

    return run


def _account(command: _Parser) -> None:
    command.set_defaults(epsilon=None)
    _ledger(command)
    _mechanism(command)
    _delta(command)
    _neighbours(command)


def _calibrate(command: _Parser) -> None:
    target = command.add_argument_group("target (one of these)")
    target.add_argument("--epsilon", type=_number, metavar="ε", help="at most this ε, at --delta")
    target.add_argument("--tpr", type=_number, metavar="P", help="at most this true-positive rate, at --fpr")
    target.add_argument("--advantage", type=_number, metavar="P", help="at most this membership advantage")
    target.add_argument(
        "--posterior",
        type=_number,
        metavar="P",
        help="at most this belief, from --prior, except with probability --delta",
    )
    target.add_argument("--fpr", type=_number, metavar="P", help="false-positive rate of the attack")
    target.add_argument("--prior", type=_number, metavar="P", help="belief before the release")
    _mechanism(command, title="mechanism (leave out the one to solve for)")
    _delta(command)
    _neighbours(command)


def _explain(command: _Parser) -> None:
    _ledger(command)
    command.add_argument("--epsilon", type=_number, metavar="ε", help="a claim of this ε, at --delta")
    _mechanism(command)
    _delta(command)
    _neighbours(command)
    command.add_argument("--plot", metavar="FILE.svg", help="also draw it")


def _release(command: _Parser) -> None:
    command.add_argument("data", help="a table, as .csv or .parquet")
    command.add_argument(
        "--privacy-unit", metavar="COLUMN", help="who is protected: everyone whom this column names"
    )
    asked = command.add_argument_group("statistics (one or more, each as often as you like)")
    for name, form, purpose in _STATISTICS:
        asked.add_argument(
            f"--{name}",
            action=_Statistic,
            dest="statistics",
            metavar=form,
            nargs=None if form else 0,
            help=purpose,
        )
    asked.add_argument(
        "--group-by",
        metavar="COL[:KEY,…]",
        help="each count, sum, mean … once for every key; keys that are not listed are found, which needs --delta",
    )
    spent = command.add_argument_group("what it may cost")
    spent.add_argument(
        "--epsilon", type=_number, metavar="ε", help="for all statistics of this release together"
    )
    spent.add_argument("--delta", type=_number, metavar="δ", help="failure probability (default: 0, none)")
    spent.add_argument(
        "--split", metavar="W,W…", help="how ε is shared, a weight for each statistic (default: evenly)"
    )
    spent.add_argument(
        "--quote", action="store_true", help="tell the cost and the expected error, and read no row"
    )
    spent.add_argument(
        "--ledger",
        metavar="FILE.json",
        help="write there what is spent, before it is answered; made if missing",
    )
    spent.add_argument(
        "--budget",
        metavar="ε[:δ]",
        help="refuse what would take the ledger beyond this (δ: that of --delta); given once, the ledger keeps it",
    )
    bounds = command.add_argument_group("how much of one person counts")
    bounds.add_argument("--rows-per-person", type=_count, metavar="N", help="in one group (default: 1)")
    bounds.add_argument("--groups-per-person", type=_count, metavar="N", help="with --group-by (default: 1)")
    command.add_argument(
        "--answer-after",
        type=_number,
        metavar="SECONDS",
        help="answer so many seconds after the table is opened, whatever is in it, and fail if it takes longer: "
        "a defence against timing",
    )
    command.add_argument("--confidence", type=_number, metavar="P", help="of the error bars (default: 0.95)")
    command.add_argument("--adjacency", metavar="R", help="add-remove (the default), replace-one or zero-out")
    command.add_argument(
        "--population",
        type=_count,
        metavar="n",
        help="number of people, to check that δ is small enough for it",
    )


def _ledger_file(command: _Parser) -> None:
    command.add_argument("ledger", help="the file that --ledger of a release names")
    command.add_argument(
        "--change-budget",
        metavar="ε[:δ]",
        help="give it another budget, at least what was spent; the ledger keeps a record, and says that the budget came late",
    )
    command.add_argument("--reason", metavar="TEXT", help="why; written into the ledger")
    command.add_argument(
        "--beyond",
        metavar="HEAD",
        help="exit with 1 if the ledger is behind this head, as after a restored backup; note the head that this command shows",
    )


def _audit(command: _Parser) -> None:
    command.add_argument(
        "subject",
        nargs="?",
        help="a .py file that sets model, members and nonmembers (and recipe), or a .toml file that names them; "
        "the .py file, also one that the .toml file names, is run as a program: audit only files that you trust",
    )
    own = command.add_argument_group("instead of a model: scores of an attack of your own, higher = member")
    own.add_argument("--members", metavar="FILE", help="scores of records that were trained on")
    own.add_argument("--nonmembers", metavar="FILE", help="scores of records that were not")
    how = command.add_argument_group("how it is attacked")
    how.add_argument(
        "--attacks", metavar="A,B…", help=f"some of {', '.join(_ATTACKS)} (default: those that fit)"
    )
    how.add_argument(
        "--references",
        type=_count,
        metavar="K",
        help="reference models to train (default: 16, with a recipe)",
    )
    how.add_argument(
        "--budget", metavar="TIME", help="the longest that reference models may take, such as 10min"
    )
    how.add_argument(
        "--cache", metavar="FOLDER", help="where reference models are remembered (default: .privet-cache)"
    )
    how.add_argument("--seed", type=_seed, metavar="N", help="of the reference models' splits (default: 0)")
    how.add_argument("--confidence", type=_number, metavar="P", help="of the measured bound (default: 0.95)")
    claim = command.add_argument_group("what was claimed")
    claim.add_argument(
        "--ledger", metavar="FILE.json", help="the ledger of the training, for the bound by proof"
    )
    claim.add_argument("--delta", type=_number, metavar="δ", help="of both bounds (default: 1e-5)")
    told = command.add_argument_group("what comes out")
    told.add_argument("--name", metavar="TEXT", help="what to call the model")
    told.add_argument(
        "--out", metavar="FILE", help="the report: .html, .json, .md (model card), .dpia.html or .pia.json"
    )
    told.add_argument(
        "--key",
        metavar="FILE",
        help="the key of the report's fingerprints; made if missing (default: beside --out, REPORT.fingerprints.key)",
    )
    told.add_argument(
        "--public-model",
        action="store_true",
        help="the model is published, so that anybody may check its fingerprint without the key",
    )
    told.add_argument(
        "--fail-above",
        action="append",
        metavar="FIGURE=LIMIT",
        help="exit with 1 above it: tpr@0.001=0.05, auc=0.6, epsilon=3 or detected; as often as you like",
    )


def _verify(command: _Parser) -> None:
    command.add_argument("report", help="the report, as .json")
    command.add_argument(
        "subject",
        nargs="?",
        help="the .py or .toml file of the audit; it names model, members and nonmembers; "
        "the .py file is run as a program: give only files that you trust",
    )
    own = command.add_argument_group("instead of that file, or beside it")
    own.add_argument("--model", metavar="FILE.pt", help="a state dict, as torch.save writes it")
    own.add_argument(
        "--members",
        metavar="FILE",
        help="records that were trained on; their scores, where the report is on scores",
    )
    own.add_argument("--nonmembers", metavar="FILE", help="records that were not, or their scores")
    own.add_argument("--label", metavar="COLUMN", help="the class in a table of records (default: label)")
    own.add_argument("--ledger", metavar="FILE.json", help="the ledger of the training")
    command.add_argument(
        "--key",
        metavar="FILE",
        help="the key of the report's fingerprints (default: beside the report, REPORT.fingerprints.key)",
    )
    command.add_argument("--name", metavar="TEXT", help="which model, where the report has several")


@final
class _Statistic(argparse.Action):
    """Statistics of every kind in one list, in the order in which they were asked."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        del parser
        kind = (option_string or "").removeprefix("--")
        described = values if isinstance(values, str) else ""
        namespace.statistics = [*(namespace.statistics or []), (kind, described)]


def _demo(command: _Parser) -> None:
    command.add_argument(
        "--out",
        metavar="FILE",
        default="privet-report.html",
        help="the report: .html, .json, .md (model card), .dpia.html or .pia.json (default: %(default)s)",
    )


def _ledger(command: _Parser) -> None:
    command.add_argument("ledger", nargs="?", help="a ledger or an event, as JSON; - reads standard input")


def _mechanism(command: _Parser, *, title: str = "mechanism") -> None:
    group = command.add_argument_group(title)
    group.add_argument(
        "--noise-multiplier", type=_number, metavar="σ", help="Gaussian noise, relative to the clipping bound"
    )
    group.add_argument(
        "--sampling-rate",
        type=_number,
        metavar="q",
        help="Poisson rate, such as 0.004 or 256/60000; 1 is everybody in every step",
    )
    group.add_argument("--steps", type=_count, metavar="T", help="how often it runs")


def _delta(command: _Parser) -> None:
    command.add_argument("--delta", type=_number, metavar="δ", help="failure probability, far below 1/n")


def _neighbours(command: _Parser) -> None:
    group = command.add_argument_group("who is protected")
    group.add_argument("--adjacency", metavar="R", help="add-remove (the default), replace-one or zero-out")
    group.add_argument("--unit", metavar="U", help="record (the default), user or client")
    group.add_argument(
        "--population",
        type=_count,
        metavar="n",
        help="number of units, to check that δ is small enough for it",
    )


def _number(text: str) -> float:
    try:
        return float(Fraction(text)) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None


def _count(text: str) -> int:
    return _whole(text, least=1)


def _seed(text: str) -> int:
    return _whole(text, least=0)


def _whole(text: str, least: int) -> int:
    value = _number(text)
    if not math.isfinite(value) or value != math.floor(value):
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}")
    if not least <= value <= _LARGEST_COUNT:
        raise argparse.ArgumentTypeError(f"must be from {least} to {_LARGEST_COUNT:.0e}, got {text!r}")
    return int(value)


def _joined(words: Sequence[str]) -> list[str]:
    """``--delta -1e-5`` as ``--delta=-1e-5``, so that a negative number is told to be one."""
    joined: list[str] = []
    for word in words:
        negative = re.fullmatch(r"-(\.?\d.*|inf(inity)?|nan)", word, re.IGNORECASE)
        if negative and joined and re.fullmatch(r"--[a-z-]+", joined[-1]):
            joined[-1] = f"{joined[-1]}={word}"
        else:
            joined.append(word)
    return joined
