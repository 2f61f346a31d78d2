"""``privet curator selftest``: a curator that is killed again and again, and what that lost."""

import argparse
import json
from contextlib import ExitStack

from privet.cli.exit_codes import ExitCode
from privet.cli.output import CliAnswer, facts, paragraph, write_progress
from privet.curator.selftest import run_selftest
from privet.private_folders import private_folder

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Kill it so many times, and count."""
    with ExitStack() as stack:
        address = arguments.database
        if address is None:
            address = f"sqlite:///{stack.enter_context(private_folder()) / 'selftest.db'}"
        report = run_selftest(
            address,
            kills=arguments.kills,
            analysts=arguments.analysts,
            tell=lambda done: write_progress(f"{done} of {arguments.kills} kills"),
        )
    write_progress("")
    document = json.loads(report.to_json())
    said = (
        "Every answer was charged, no cap was exceeded, and nothing was lost."
        if report.is_sound
        else "Something was lost, not charged, or charged beyond a cap. Do not use this database."
    )
    rows = [(name.replace("_", " "), str(value)) for name, value in document.items()]
    return CliAnswer(
        [paragraph(said), facts(rows)], document, ExitCode.HELD if report.is_sound else ExitCode.BROKEN
    )
