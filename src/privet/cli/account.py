"""``privet account``: how much this leaks."""

import argparse
from contextlib import suppress

from privet.adjacency import Adjacency
from privet.bounds import Interval
from privet.caveats import Caveat
from privet.cli.output import CliAnswer, caveat_rows, caveat_text, facts, paragraph, rounded_down, rounded_up
from privet.cli.query import GuaranteeQuery, read_query
from privet.errors import OutOfReach, PrivetError

__all__ = ["claim_document", "claim_sentence", "neighbours", "run", "warnings_of"]


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Report the lower and the upper bound of ε at δ, the accountant and the caveats."""
    question = read_query(arguments)
    bounds = epsilon_of(question)
    guarantee = question.guarantee
    rows = [
        ("upper bound", rounded_up(bounds.upper)),
        ("lower bound", rounded_down(bounds.lower)),
        ("gap", f"{max(bounds.relative_gap, 0.0):.1g} relative"),
        ("accountant", guarantee.accountant),
        ("adjacency", neighbours(guarantee.adjacency, chosen=question.chosen)),
    ]
    rows += [*_sizes(arguments), *_prices(question)]
    blocks = [
        claim_sentence(question, bounds) + ".",
        *warnings_of(guarantee.caveats),
        facts(rows),
        *caveat_text(guarantee.caveats - {Caveat.DELTA_TOO_LARGE}),
    ]
    return CliAnswer(blocks, claim_document(question, bounds))


def _sizes(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """The rate and the steps that follow from batch size, dataset size and epochs."""
    if arguments.batch_size is None:
        return []
    rate = f"{arguments.batch_size}/{arguments.dataset_size} = {arguments.sampling_rate:.6g}"
    return [("sampling rate", f"{rate}, by Poisson sampling"), ("steps", f"{arguments.steps:,}")]


def _prices(question: GuaranteeQuery) -> list[tuple[str, str]]:
    """For a ledger with a filter: the cost of its entries if every question had been fixed beforehand."""
    if question.fixed is None:
        return []
    with suppress(PrivetError):
        price = question.fixed.epsilon(delta=question.delta)
        return [("price", f"ε ≤ {rounded_up(price)}, if every question had been fixed beforehand")]
    return []


def epsilon_of(question: GuaranteeQuery) -> Interval:
    """The bounds of ε. An infinite bound is an error."""
    bounds = question.guarantee.epsilon_bounds(delta=question.delta)
    if not 0 <= bounds.lower <= bounds.upper < float("inf"):
        raise OutOfReach(
            f"No finite ε was certified at δ = {question.delta:g}. Add noise, or ask at a larger δ."
        )
    return bounds


def claim_sentence(question: GuaranteeQuery, bounds: Interval) -> str:
    """The verdict, without its full stop."""
    adjacency = question.guarantee.adjacency
    return (
        f"ε ≤ {rounded_up(bounds.upper)} at δ = {question.delta:g} "
        f"for every {adjacency.unit}, under {adjacency.relation} adjacency"
    )


def claim_document(question: GuaranteeQuery, bounds: Interval) -> dict[str, object]:
    """The fields that the JSON of every command has."""
    guarantee = question.guarantee
    return {
        "epsilon": bounds.upper,
        "epsilon_lower": bounds.lower,
        "delta": question.delta,
        "adjacency": guarantee.adjacency.relation,
        "adjacency_chosen": question.chosen,
        "unit": str(guarantee.adjacency.unit),
        "accountant": guarantee.accountant,
        "caveats": caveat_rows(guarantee.caveats),
    }


def neighbours(adjacency: Adjacency, *, chosen: bool) -> str:
    """The adjacency, with a note if it is the default."""
    return f"{adjacency}, chosen because no --adjacency was given" if chosen else str(adjacency)


def warnings_of(caveats: frozenset[Caveat]) -> list[str]:
    """Warnings that stand before the number."""
    alarming = caveats & {Caveat.DELTA_TOO_LARGE}
    return [paragraph(f"Warning: {caveat.sentence}") for caveat in alarming]
