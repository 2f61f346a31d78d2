"""Options of ``privet federated``."""

import argparse

from privet.cli.option_types import parse_number

__all__ = ["add_federated_options"]


def add_federated_options(command: argparse.ArgumentParser) -> None:
    """Options of ``privet federated``."""
    command.add_argument(
        "action",
        choices=("demo",),
        help="demo: 50 clients train together under four defences, and are attacked",
    )
    command.add_argument(
        "--epsilon",
        type=parse_number,
        metavar="ε",
        default=8.0,
        help="of a client, where there is noise (default: %(default)g)",
    )
    command.add_argument(
        "--delta", type=parse_number, metavar="δ", default=1e-3, help="of that ε (default: %(default)g)"
    )
    command.add_argument(
        "--out",
        metavar="FILE",
        default="privet-federated-report.html",
        help="the report: .html, .json or .md (default: %(default)s)",
    )
