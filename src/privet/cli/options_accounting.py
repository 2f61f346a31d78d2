"""Options of the commands that account: ``account``, ``calibrate`` and ``explain``."""

import argparse

from privet.cli.option_types import parse_count, parse_number

__all__ = ["add_account_options", "add_calibrate_options", "add_explain_options"]


def add_account_options(command: argparse.ArgumentParser) -> None:
    """Options of ``privet account``."""
    command.set_defaults(epsilon=None)
    _add_ledger(command)
    _add_mechanism(command)
    _add_delta(command)
    _add_adjacency(command)


def add_calibrate_options(command: argparse.ArgumentParser) -> None:
    """Options of ``privet calibrate``."""
    target = command.add_argument_group("target (one of these)")
    target.add_argument("--epsilon", type=parse_number, metavar="ε", help="at most this ε, at --delta")
    target.add_argument(
        "--tpr", type=parse_number, metavar="P", help="at most this true-positive rate, at --fpr"
    )
    target.add_argument(
        "--advantage", type=parse_number, metavar="P", help="at most this membership advantage"
    )
    target.add_argument(
        "--posterior",
        type=parse_number,
        metavar="P",
        help="at most this belief, from --prior, except with probability --delta",
    )
    target.add_argument("--fpr", type=parse_number, metavar="P", help="false-positive rate of the attack")
    target.add_argument("--prior", type=parse_number, metavar="P", help="belief before the release")
    _add_mechanism(command, title="mechanism (leave out the one to solve for)")
    tuning = command.add_argument_group("a search for the best run, as privet.tune makes it")
    tuning.add_argument(
        "--runs",
        type=parse_number,
        metavar="M",
        help="the best of M such runs on average is published (a geometric number of them)",
    )
    tuning.add_argument(
        "--score-noise",
        type=parse_number,
        metavar="s",
        help="noise on each run's number of right answers, 30/ε by default in privet.tune",
    )
    _add_delta(command)
    _add_adjacency(command)


def add_explain_options(command: argparse.ArgumentParser) -> None:
    """Options of ``privet explain``."""
    _add_ledger(command)
    command.add_argument("--epsilon", type=parse_number, metavar="ε", help="a claim of this ε, at --delta")
    _add_mechanism(command)
    _add_delta(command)
    _add_adjacency(command)
    command.add_argument("--plot", metavar="FILE.svg", help="also draw it")


def _add_ledger(command: argparse.ArgumentParser) -> None:
    command.add_argument("ledger", nargs="?", help="a ledger or an event, as JSON; - reads standard input")


def _add_mechanism(command: argparse.ArgumentParser, *, title: str = "mechanism") -> None:
    group = command.add_argument_group(title)
    group.add_argument(
        "--noise-multiplier",
        type=parse_number,
        metavar="σ",
        help="Gaussian noise, relative to the clipping bound",
    )
    group.add_argument(
        "--sampling-rate",
        type=parse_number,
        metavar="q",
        help="Poisson rate, such as 0.004 or 256/60000; 1 is everybody in every step",
    )
    group.add_argument("--steps", type=parse_count, metavar="T", help="how often it runs")
    training = command.add_argument_group(
        "the same in the words of training, instead of --sampling-rate and --steps"
    )
    training.add_argument(
        "--batch-size", type=parse_count, metavar="B", help="examples in a batch, on average"
    )
    training.add_argument(
        "--dataset-size", type=parse_count, metavar="N", help="examples in the dataset, a public number"
    )
    training.add_argument(
        "--epochs", type=parse_number, metavar="E", help="passes over the dataset; steps are rounded up"
    )


def _add_delta(command: argparse.ArgumentParser) -> None:
    command.add_argument("--delta", type=parse_number, metavar="δ", help="failure probability, far below 1/n")


def _add_adjacency(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("who is protected")
    group.add_argument("--adjacency", metavar="R", help="add-remove (the default), replace-one or zero-out")
    group.add_argument("--unit", metavar="U", help="record (the default), user or client")
    group.add_argument(
        "--population",
        type=parse_count,
        metavar="n",
        help="number of units, to check that δ is small enough for it",
    )
