"""Options of the commands on models and reports: ``train``, ``audit``, ``verify``, ``compare`` and
``demo``.
"""

import argparse

from privet.cli.option_types import parse_count, parse_number, parse_seed

__all__ = [
    "add_audit_options",
    "add_compare_options",
    "add_demo_options",
    "add_train_options",
    "add_verify_options",
]

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
        "taught-noise",
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
        "ensemble",
        "shokri",
        "quantile",
        "gradient-norm",
    ),
    *("gradient-alignment", "layer-classifier"),
)  # as privet.attacks.membership.registry has them, which is not loaded for --help

_RECOVERIES = ("attributes", "prototypes")  # as privet.attacks.inversion.registry has them


def add_train_options(command: argparse.ArgumentParser) -> None:
    """Options of ``privet train``."""
    command.add_argument(
        "subject",
        help="a .py file that sets model (a torch module) and members (the training data), and may set loss; "
        "the file is run as a program: train only from files that you trust",
    )
    cost = command.add_argument_group("what it may cost")
    cost.add_argument("--epsilon", type=parse_number, metavar="ε", help="of the whole training")
    cost.add_argument("--delta", type=parse_number, metavar="δ", help="failure probability, far below 1/n")
    cost.add_argument("--adjacency", metavar="R", help="add-remove (the default), replace-one or zero-out")
    cost.add_argument(
        "--population",
        type=parse_count,
        metavar="n",
        help="public number of examples (default: taken from the data)",
    )
    command.set_defaults(unit=None)
    how = command.add_argument_group("how it is trained")
    how.add_argument("--epochs", type=parse_number, metavar="E", help="passes over the data")
    how.add_argument(
        "--lot-size", type=parse_count, metavar="L", help="examples in a lot, on average (default: 16 √n)"
    )
    how.add_argument(
        "--clip",
        type=parse_number,
        metavar="C",
        help="flat clipping bound (default: automatic clipping at 1)",
    )
    how.add_argument(
        "--canaries",
        type=parse_count,
        metavar="N",
        help="canaries among the examples, for an audit of the run",
    )
    how.add_argument(
        "--checkpoint", metavar="FOLDER", help="where the run is kept, so that it can go on after a crash"
    )
    command.add_argument("--out", metavar="FILE.pt", required=True, help="a new file for the weights")
    command.add_argument(
        "--ledger", metavar="FILE.json", help="a new file for the ledger (default: OUT.ledger.json)"
    )


def add_compare_options(command: argparse.ArgumentParser) -> None:
    """Options of ``privet compare``."""
    command.add_argument(
        "reports",
        nargs="+",
        metavar="REPORT.json | STUDY.py",
        help="reports of privet audit, as .json; or one .py file that sets recipes (defences, or names with "
        "recipes) and data, and may set recipe (the training without a defence) and test; the file is run as "
        "a program: compare only files that you trust",
    )
    how = command.add_argument_group("how defences are compared, with a .py file")
    how.add_argument(
        "--references", type=parse_count, metavar="K", help="models for each defence (default: 16)"
    )
    how.add_argument(
        "--canaries", type=parse_count, metavar="N", help="most exposed records of each kind (default: 50)"
    )
    how.add_argument(
        "--fpr",
        type=parse_number,
        metavar="R",
        help="false-alarm rate at which members are found (default: 0.01)",
    )
    how.add_argument(
        "--accuracy-loss",
        type=parse_number,
        metavar="L",
        help="loss of accuracy that is acceptable (default: 0.02)",
    )
    how.add_argument(
        "--confidence", type=parse_number, metavar="P", help="of all intervals together (default: 0.95)"
    )
    how.add_argument(
        "--cache", metavar="FOLDER", help="where finished models are kept (default: .privet-cache)"
    )
    how.add_argument("--seed", type=parse_seed, metavar="N", help="of every random choice (default: 0)")
    how.add_argument("--out", metavar="FILE", help="the report page: .html, .json or .md")


def add_audit_options(command: argparse.ArgumentParser) -> None:
    """Options of ``privet audit``."""
    command.add_argument(
        "subject",
        nargs="?",
        help="a .py file that sets model, members and nonmembers (and recipe), or a .toml file that names "
        "them; the .py file, also one that the .toml file names, is run as a program: audit only files "
        "that you trust",
    )
    own = command.add_argument_group("instead of a model: scores of an attack of your own, higher = member")
    own.add_argument("--members", metavar="FILE", help="scores of records that were trained on")
    own.add_argument("--nonmembers", metavar="FILE", help="scores of records that were not")
    how = command.add_argument_group("how it is attacked")
    how.add_argument(
        "--attacks",
        metavar="A,B…",
        help=f"some of {', '.join(_ATTACKS)} (default: those that fit), which guess membership, "
        f"and of {', '.join(_RECOVERIES)}, which recover something",
    )
    how.add_argument(
        "--secret", metavar="I,J…", help="columns of a secret attribute, counted from 0, for attributes"
    )
    how.add_argument(
        "--sample-shape",
        metavar="H,W…",
        help="the shape of one input, where records are flat pictures",
    )
    how.add_argument(
        "--references",
        type=parse_count,
        metavar="K",
        help="reference models to train (default: 16, with a recipe)",
    )
    how.add_argument(
        "--time-limit", metavar="TIME", help="the longest that reference models may take, such as 10min"
    )
    how.add_argument(
        "--cache", metavar="FOLDER", help="where reference models are remembered (default: .privet-cache)"
    )
    how.add_argument(
        "--seed", type=parse_seed, metavar="N", help="of the reference models' splits (default: 0)"
    )
    how.add_argument(
        "--confidence", type=parse_number, metavar="P", help="of the measured bound (default: 0.95)"
    )
    claim = command.add_argument_group("what was claimed")
    claim.add_argument(
        "--ledger", metavar="FILE.json", help="the ledger of the training, for the bound by proof"
    )
    claim.add_argument("--delta", type=parse_number, metavar="δ", help="of both bounds (default: 1e-5)")
    output = command.add_argument_group("what comes out")
    output.add_argument("--name", metavar="TEXT", help="what to call the model")
    output.add_argument(
        "--comparison",
        metavar="FILE.json",
        help="defences by privet compare STUDY.py --out FILE.json; the advice of the report quotes it",
    )
    output.add_argument(
        "--out", metavar="FILE", help="the report: .html, .json, .md (model card), .dpia.html or .pia.json"
    )
    output.add_argument(
        "--exhibits",
        action="store_true",
        help="show what attacks recovered beside the truth: private data, to be kept like the data",
    )
    output.add_argument(
        "--key",
        metavar="FILE",
        help="the key of the report's fingerprints; made if missing (default: beside --out, "
        "REPORT.fingerprints.key)",
    )
    output.add_argument(
        "--public-model",
        action="store_true",
        help="the model is published, so that anybody may check its fingerprint without the key",
    )
    output.add_argument(
        "--fail-above",
        action="append",
        metavar="FIGURE=LIMIT",
        help="exit with 1 above it: tpr@0.001=0.05, auc=0.6, epsilon=3, leak=0.1 or detected; repeat it",
    )


def add_verify_options(command: argparse.ArgumentParser) -> None:
    """Options of ``privet verify``."""
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
    own.add_argument("--table", metavar="FILE", help="the table, where the report is on a table")
    own.add_argument("--ledger", metavar="FILE.json", help="the ledger of the training")
    command.add_argument(
        "--key",
        metavar="FILE",
        help="the key of the report's fingerprints (default: beside the report, REPORT.fingerprints.key)",
    )
    command.add_argument("--name", metavar="TEXT", help="which model, where the report has several")


def add_demo_options(command: argparse.ArgumentParser) -> None:
    """Options of ``privet demo``."""
    command.add_argument(
        "--out",
        metavar="FILE",
        default="privet-report.html",
        help="the report: .html, .json, .md (model card), .dpia.html or .pia.json (default: %(default)s)",
    )
