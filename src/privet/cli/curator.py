"""``privet curator``: which module does what was asked."""

import argparse
from importlib import import_module

from privet.cli.output import CliAnswer
from privet.errors import MissingPackage

__all__ = ["run"]

_MODULES = {
    "demo": "curator_demo",
    "serve": "curator_serve",
    "add-dataset": "curator_stewardship",
    "add-analyst": "curator_stewardship",
    "grant": "curator_stewardship",
    "export": "curator_evidence",
    "verify": "curator_evidence",
    "selftest": "curator_selftest",
}


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Do one action."""
    try:
        answer: CliAnswer = import_module(f"privet.cli.{_MODULES[arguments.action]}").run(arguments)
    except ModuleNotFoundError as missing:
        if (missing.name or "privet").partition(".")[0] == "privet":
            raise
        raise MissingPackage(
            f"privet curator needs the package {missing.name!r}, which is not installed. Run pip "
            f"install 'privet[curator]'."
        ) from None
    return answer
