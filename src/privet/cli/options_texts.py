"""Options of the commands on language models: ``audit-text`` and ``text``."""

import argparse

from privet.cli.option_types import parse_count, parse_number, parse_seed

__all__ = ["add_audit_text_options", "add_text_options"]


def add_audit_text_options(command: argparse.ArgumentParser) -> None:
    """Options of ``privet audit-text``."""
    command.add_argument(
        "subject",
        help="a .py file that sets model, encoder, texts and members (and authors, public, recipe, "
        "canaries …), as privet.audit_text takes them; it is run as a program: audit only files that you "
        "trust",
    )
    how = command.add_argument_group("how it is attacked")
    how.add_argument(
        "--references",
        type=parse_count,
        metavar="K",
        help="reference models to train (default: 8, with a recipe)",
    )
    how.add_argument(
        "--prompt-tokens",
        type=parse_count,
        metavar="N",
        help="tokens before a passage that the adversary knows (default: 8, of bytes 32)",
    )
    how.add_argument(
        "--passage-tokens",
        type=parse_count,
        metavar="N",
        help="tokens of a passage that is to be extracted (default: 12, of bytes 40)",
    )
    how.add_argument(
        "--samples",
        type=parse_seed,
        metavar="N",
        help="texts that the model writes without a prompt, 0 for none (default: 200)",
    )
    how.add_argument("--longest", type=parse_count, metavar="N", help="tokens after which a text is cut")
    how.add_argument("--end", type=parse_seed, metavar="TOKEN", help="the token that ends a text")
    how.add_argument("--seed", type=parse_seed, metavar="N", help="of every random choice (default: 0)")
    how.add_argument(
        "--confidence", type=parse_number, metavar="P", help="of all statements together (default: 0.95)"
    )
    claim = command.add_argument_group("what was claimed")
    claim.add_argument(
        "--ledger", metavar="FILE.json", help="the ledger of the training, for the bound by proof"
    )
    claim.add_argument("--delta", type=parse_number, metavar="δ", help="of both bounds (default: 1e-5)")
    output = command.add_argument_group("what comes out")
    output.add_argument("--name", metavar="TEXT", help="what to call the model")
    output.add_argument(
        "--out", metavar="FILE", help="the report: .html, .json, .md (model card), .dpia.html or .pia.json"
    )
    output.add_argument(
        "--exhibits",
        action="store_true",
        help="show texts, authors and passages, which are redacted otherwise: private data, to be kept like "
        "the data",
    )
    output.add_argument(
        "--key",
        metavar="FILE",
        help="the key of the report's fingerprints; made if missing (default: beside --out, "
        "REPORT.fingerprints.key)",
    )
    output.add_argument(
        "--fail-above",
        action="append",
        metavar="FIGURE=LIMIT",
        help="exit with 1 above it: tpr@0.01=0.05, auc=0.6, epsilon=3, leak=0.1 or detected; repeat it",
    )


def add_text_options(command: argparse.ArgumentParser) -> None:
    """Options of ``privet text``."""
    command.add_argument(
        "action", choices=("demo",), help="demo: train language models on invented letters, and attack them"
    )
    command.add_argument(
        "--out",
        metavar="FILE",
        default="privet-text-report.html",
        help="the report: .html, .json, .md (model card), .dpia.html or .pia.json (default: %(default)s)",
    )
    command.add_argument(
        "--exhibits",
        action="store_true",
        help="show the letters and their writers, who are invented here",
    )
