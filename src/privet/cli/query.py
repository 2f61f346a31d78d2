"""What the command line asks about: a ledger file, a mechanism, or a claim (ε, δ)."""

import argparse
import json
import math
import sys
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import final

from privet.accounting import account, fixed_price
from privet.adjacency import Adjacency, adjacency_from_name
from privet.arguments import at_least, finite
from privet.caveats import Caveat
from privet.documents import event_from_json
from privet.errors import InvalidArgument, Unreadable
from privet.events import Event, Gaussian, Repeat, dp_sgd
from privet.guarantees import Guarantee, PairCurve, delta_warning
from privet.ledger import Ledger

__all__ = ["GuaranteeQuery", "adjacency_of", "apply_training_sizes", "delta_of", "mechanism", "read_query"]

_LARGEST_STEPS = 10**15


@final
@dataclass(frozen=True)
class GuaranteeQuery:
    """A guarantee, the δ of the question, and whether the adjacency is the default.

    ``fixed`` is the guarantee of a ledger with a filter if every question had been fixed beforehand.
    """

    guarantee: Guarantee
    delta: float
    chosen: bool
    fixed: Guarantee | None = None


def read_query(arguments: argparse.Namespace) -> GuaranteeQuery:
    """The guarantee that the command line asks about."""
    apply_training_sizes(arguments)
    claim = arguments.epsilon
    given = [
        name
        for name, value in (
            ("a file", arguments.ledger),
            ("--noise-multiplier", arguments.noise_multiplier),
            ("--epsilon", claim),
        )
        if value is not None
    ]
    if len(given) != 1:
        raise InvalidArgument(
            f"One mechanism, file or claim must be given, got {' and '.join(given) or 'none'}. "
            f"Give --noise-multiplier, or a ledger.json."
        )
    if arguments.noise_multiplier is None and (arguments.sampling_rate, arguments.steps) != (None, None):
        raise InvalidArgument(
            f"--sampling-rate and --steps describe a mechanism, got them with {given[0]}. Leave them out."
        )
    delta, fixed = delta_of(arguments), None
    if claim is not None:
        found, chosen = _make_claim(claim, delta, adjacency_of(arguments)), arguments.adjacency is None
    elif arguments.ledger is not None:
        found, chosen, fixed = _account_file(arguments)
    else:
        event = mechanism(arguments.noise_multiplier, arguments.sampling_rate, arguments.steps or 1)
        found, chosen = _account_event(event, arguments), arguments.adjacency is None
    population = arguments.population or (
        arguments.dataset_size if arguments.unit in (None, "record") else None
    )
    if population is not None:
        found = replace(found, caveats=found.caveats | delta_warning(delta, population))
    return GuaranteeQuery(found, delta, chosen, fixed)


def apply_training_sizes(arguments: argparse.Namespace) -> None:
    """Set the sampling rate B/N and ⌈E N/B⌉ steps where batch size B, dataset size N and epochs E were given.

    Steps are rounded up, so that ε is never that of fewer steps. Poisson sampling is assumed, as for
    ``--sampling-rate``.
    """
    sizes = (arguments.batch_size, arguments.dataset_size, arguments.epochs)
    if sizes == (None, None, None):
        return
    if None in sizes:
        raise InvalidArgument(
            "--batch-size, --dataset-size and --epochs must be given together, got only a part of them. "
            "Give all three, or --sampling-rate and --steps."
        )
    if (arguments.sampling_rate, arguments.steps) != (None, None):
        raise InvalidArgument(
            "--batch-size, --dataset-size and --epochs must be given instead of --sampling-rate and "
            "--steps, got both. Leave one of the two out."
        )
    batch, dataset, epochs = sizes
    if batch > dataset:
        raise InvalidArgument(
            f"--batch-size must be at most --dataset-size, got {batch} and {dataset}. Check the two numbers."
        )
    if not finite("epochs", epochs) > 0:
        raise InvalidArgument(f"--epochs must be above 0, got {epochs:g}. Give the number of passes.")
    steps = math.ceil(Fraction(epochs) * Fraction(dataset, batch))
    if steps > _LARGEST_STEPS:
        raise InvalidArgument(
            f"--epochs must give at most {_LARGEST_STEPS:.0e} steps, got {float(steps):.2g}. Give fewer "
            "epochs."
        )
    arguments.sampling_rate, arguments.steps = batch / dataset, steps


def mechanism(noise_multiplier: float, sampling_rate: float | None, steps: int) -> Event:
    """The event of DP-SGD; that of the Gaussian mechanism if the sampling rate is 1."""
    if sampling_rate is None or sampling_rate == 1:
        return Repeat(Gaussian(noise_multiplier), steps) if steps > 1 else Gaussian(noise_multiplier)
    return dp_sgd(noise_multiplier=noise_multiplier, sampling_rate=sampling_rate, steps=steps)


def delta_of(arguments: argparse.Namespace) -> float:
    """The δ, which has no default."""
    if arguments.delta is None:
        raise InvalidArgument(
            "--delta must be given, because an ε says nothing without its δ. "
            "Use a value far below 1/n, such as 1e-6."
        )
    delta = float(arguments.delta)
    if not 0 <= finite("delta", delta) < 1:
        raise InvalidArgument(
            f"'delta' must be at least 0 and below 1, got {delta!r}. Use a value far below 1/n."
        )
    return delta


def adjacency_of(arguments: argparse.Namespace) -> Adjacency:
    """The adjacency of the command line. The default is add-remove, and the output says so."""
    return adjacency_from_name(arguments.adjacency or "add-remove", arguments.unit or "record")


def _make_claim(epsilon: float, delta: float, adjacency: Adjacency) -> Guarantee:
    curve = PairCurve(at_least("epsilon", epsilon, 0), delta)
    return Guarantee(curve, adjacency, "as claimed", frozenset({Caveat.WORST_OF_CLASS}))


def _account_event(event: Event, arguments: argparse.Namespace) -> Guarantee:
    return account(event, adjacency=adjacency_of(arguments))


def _account_file(arguments: argparse.Namespace) -> tuple[Guarantee, bool, Guarantee | None]:
    text = _read(arguments.ledger)
    if _format(text) == "privet-event":
        return _account_event(event_from_json(text), arguments), arguments.adjacency is None, None
    ledger = Ledger.from_json(text)
    own = ledger.adjacency
    wanted = adjacency_from_name(arguments.adjacency or own.relation, arguments.unit or own.unit)
    found = account(ledger, adjacency=wanted)
    return found, False, None if ledger.filter is None else fixed_price(ledger)


def _format(text: str) -> object:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as broken:
        raise Unreadable(f"The file must be JSON, and is not ({broken}). Check the file.") from broken
    found = document.get("format") if isinstance(document, dict) else None
    if found not in ("privet-ledger", "privet-event"):
        raise Unreadable(
            "The file must be a Privet ledger or event, and names neither as its 'format'. "
            "Write it with Ledger.to_json."
        )
    return found


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except OSError as failed:
        raise _unreadable(name, failed.strerror or "the system refused") from failed
    except UnicodeDecodeError as failed:
        raise _unreadable(name, "not text") from failed
    except ValueError as failed:
        raise _unreadable(name, str(failed)) from failed


def _unreadable(name: str, reason: str) -> Unreadable:
    return Unreadable(
        f"{name!r} must be a text file that can be read, and is not ({reason}). Check the path."
    )
