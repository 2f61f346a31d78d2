"""``privet release``: statistics of a table, with noise, error bars and what they cost."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from warnings import catch_warnings, simplefilter

from privet.accounting import Renyi, account, fixed_price
from privet.bounds import Interval
from privet.caveats import Caveat
from privet.cli.account import claim_document, claim_sentence, epsilon_of, neighbours, warnings_of
from privet.cli.output import CliAnswer, caveat_rows, caveat_text, facts, paragraph, write_progress
from privet.cli.query import GuaranteeQuery
from privet.cli.release_budget import filter_document, ledger_caveats, ledger_rows, quote_rows
from privet.cli.release_rehearsal import rehearse_release
from privet.cli.release_table import answer_document, answer_table, quote_document, quote_table
from privet.cli.release_words import budget_of, plan_of
from privet.errors import BudgetExceeded, InvalidArgument, PrivetError, Unreadable
from privet.guarantees import delta_warning
from privet.ledger import Entry, Ledger
from privet.paths import is_file, resolve_path
from privet.releasing import (
    Budget,
    FilterState,
    MemoryStore,
    PostgresTable,
    Released,
    ReleasePlan,
    Store,
    filter_state,
)
from privet.releasing.budget import extend_ledger
from privet.releasing.durable import AnswersNotKept, DurableLedger, stored_ledger
from privet.releasing.store import check_unit_column

__all__ = ["run"]

_MANY = 12  # the number of different events above which the tightest accounting takes seconds


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Quote or rehearse the release, or run it after its cost is written down."""
    plan = plan_of(arguments)
    if arguments.rehearse:
        return rehearse_release(plan, arguments)
    budget = budget_of(arguments)
    return _quote(plan, budget, arguments) if arguments.quote else _release(plan, budget, arguments)


def _quote(plan: ReleasePlan, budget: Budget | None, arguments: argparse.Namespace) -> CliAnswer:
    """Quote the cost and the expected error. They depend on the question alone, so no table is opened.

    With a ledger, its filter says whether the request would be permitted, and how much would be left.
    """
    quotes = plan.quote()
    question, bounds = _account_for(_planned_ledger(plan), arguments)
    rows = _facts(plan, question)
    document = {
        **claim_document(question, bounds),
        "quote": True,
        "answers": [quote_document(quote) for quote in quotes],
        "warnings": [],
        "ledger": None,
    }
    if arguments.ledger is not None:
        left, refused = _check_filter(plan, budget, Path(arguments.ledger))
        document["ledger"] = {
            "path": arguments.ledger,
            "permitted": refused is None,
            "filter": None if left is None else filter_document(left),
        }
        rows += quote_rows(arguments.ledger, left, refused)
    blocks = [
        f"It would cost {claim_sentence(question, bounds)}.",
        "Nothing was read, and nothing was spent.",
        *warnings_of(question.guarantee.caveats),
        quote_table(quotes),
        facts(rows),
        *caveat_text(question.guarantee.caveats - {Caveat.DELTA_TOO_LARGE}),
    ]
    return CliAnswer(blocks, document)


def _release(plan: ReleasePlan, budget: Budget | None, arguments: argparse.Namespace) -> CliAnswer:
    table = _table(arguments.data)
    question, bounds = _account_for(
        _planned_ledger(plan), arguments
    )  # a request without a finite ε is refused before it is spent
    write_progress("Waiting for the ledger …")
    with _store(plan, budget, arguments) as store, catch_warnings(record=True) as warned:
        before = len(store.ledger)
        simplefilter("ignore")  # an engine's warning may quote a row
        simplefilter("always", AnswersNotKept)
        released = _run(plan, table, store, arguments.answer_after)
    spent = Ledger(plan.relation, released.ledger.entries[before:], released.ledger.caveats)
    if spent != _planned_ledger(plan):
        with suppress(PrivetError):  # the cost of the whole plan bounds that of a part from above
            question, bounds = _account_for(spent, arguments)
    document = {
        **claim_document(question, bounds),
        "quote": False,
        "answers": [answer_document(answer) for answer in released.answers],
        "warnings": [str(warning.message) for warning in warned],
        "ledger": None,
    }
    rows, caveats = _facts(plan, question), question.guarantee.caveats
    if arguments.ledger is not None:
        delta = question.delta if budget is None else budget.delta
        price, state = _spent_in(released.ledger, delta), filter_state(released.ledger)
        rows += ledger_rows(arguments.ledger, price, delta, state)
        caveats |= ledger_caveats(released.ledger, delta)
        if Caveat.ADAPTIVE_PARAMETERS in caveats:
            caveats -= {Caveat.FIXED_PARAMETERS}  # the price beside the filter says so itself
        document["caveats"] = caveat_rows(caveats)
        document["ledger"] = {
            "path": arguments.ledger,
            "entries": len(released.ledger),
            "epsilon": price,
            "delta": delta,
            "budget": None
            if state is None
            else {"epsilon": state.filter.epsilon, "delta": state.filter.delta},
            "filter": None if state is None else filter_document(state),
        }
    verdict = f"This release costs {claim_sentence(question, bounds)}."
    if not spent.entries:
        verdict = "All of this was answered before, for the file as it was then; it costs nothing."
    blocks = [
        verdict,
        *(paragraph(f"Warning: {warning.message}") for warning in warned),
        *warnings_of(question.guarantee.caveats),
        answer_table(released.answers),
        facts(rows),
        *caveat_text(caveats - {Caveat.DELTA_TOO_LARGE}),
    ]
    return CliAnswer(blocks, document, if_lost="" if warned else _if_lost(arguments.ledger))


def _if_lost(ledger: str | None) -> str:
    if ledger is None:
        return ""
    return (
        f"What it cost is in {ledger}, and its answers are kept beside it: the same command shows them "
        "and costs nothing more."
    )


def _table(name: str) -> Path | PostgresTable:
    """The path of the table, or the table of a server. A missing file is refused before the ledger is
    opened."""
    if PostgresTable.is_url(name):
        return PostgresTable.from_url(name)
    path = Path(name)
    if not is_file(path):
        raise Unreadable(
            f"{name!r} must be a table in a file that exists, and is not. Give a .csv or .parquet file, or "
            f"postgresql://…/database?table=visits."
        )
    return path


@contextmanager
def _store(plan: ReleasePlan, budget: Budget | None, arguments: argparse.Namespace) -> Iterator[Store]:
    if arguments.ledger is None:
        yield MemoryStore(plan.relation)
        return
    path = Path(arguments.ledger)
    table = _table(arguments.data)
    if isinstance(table, Path) and resolve_path(path) == resolve_path(table):
        raise InvalidArgument(
            f"'--ledger' must not be the table itself, got {arguments.ledger!r}. Name another file."
        )
    with DurableLedger(path=path, adjacency=plan.relation, budget=budget).open() as held:
        yield held


def _run(
    plan: ReleasePlan, table: Path | PostgresTable, store: Store, answer_after: float | None
) -> Released:
    write_progress(f"Reading {table.name} …")
    # The name of a server's table has no user and no password, so a ledger may keep it.
    name = str(resolve_path(table)) if isinstance(table, Path) else table.name
    try:
        with _silent_engine():
            return plan.run(table, store=store, data_name=name, answer_after=answer_after)
    except PrivetError:
        raise
    except Exception:
        # An engine's message may quote a row, so it must not reach the reader.
        raise Unreadable(
            f"{table.name!r} must be a table that can be read to its end, and was not. Check the file; what "
            f"was spent stays spent."
        ) from None
    finally:
        write_progress("")


@contextmanager
def _silent_engine() -> Iterator[None]:
    """Silence standard error while rows are read: an engine may write there what it read."""
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # standard error is closed
        yield
        return
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _planned_ledger(plan: ReleasePlan) -> Ledger:
    """The ledger of the plan if no answer is stored yet."""
    labels = (label for label, _ in plan.statistics)
    return Ledger(plan.relation, tuple(map(Entry, labels, plan.events)))


def _account_for(ledger: Ledger, arguments: argparse.Namespace) -> tuple[GuaranteeQuery, Interval]:
    delta = arguments.delta or 0.0
    guarantee = account(ledger)
    if arguments.population is not None and delta:
        guarantee = replace(guarantee, caveats=guarantee.caveats | delta_warning(delta, arguments.population))
    question = GuaranteeQuery(guarantee, delta, arguments.adjacency is None)
    return question, epsilon_of(question)


def _check_filter(
    plan: ReleasePlan, budget: Budget | None, path: Path
) -> tuple[FilterState | None, str | None]:
    """The state of the ledger's filter after the plan, and the reason if the plan would be refused."""
    ledger = stored_ledger(path, plan.relation) or Ledger(plan.relation)
    check_unit_column(ledger, plan.unit)
    try:
        after = extend_ledger(ledger, _planned_ledger(plan).entries, frozenset(), budget)
    except BudgetExceeded as refused:
        return filter_state(ledger), str(refused)
    return filter_state(after), None


def _spent_in(ledger: Ledger, delta: float) -> float | None:
    """ε of the ledger if all questions had been fixed beforehand; None if no finite ε is proved at this δ.

    The tightest proof takes seconds for dozens of different events. For a long ledger this is the bound by
    moments, which is a little larger; ``privet account`` computes the tightest.
    """
    many = len({entry.event for entry in ledger}) > _MANY and delta > 0
    for accountant in (Renyi(), None) if many else (None,):
        with suppress(PrivetError):
            return fixed_price(ledger, accountant).epsilon(delta=delta)
    return None


def _facts(plan: ReleasePlan, question: GuaranteeQuery) -> list[tuple[str, str]]:
    bound = plan.contribution
    unit = "each row by itself, because no --privacy-unit was given"
    if plan.unit is not None:
        rows = "1 row" if bound.rows == 1 else f"{bound.rows:,} rows"
        groups = f" in each of at most {bound.groups:,} groups" if bound.groups > 1 else ""
        unit = f"{plan.unit}; each counts for at most {rows}{groups}"
    return [
        ("privacy unit", unit),
        ("error", f"of the noise, not of clamping and bounding, with confidence {plan.confidence:g}"),
        ("accountant", question.guarantee.accountant),
        ("adjacency", neighbours(question.guarantee.adjacency, chosen=question.chosen)),
    ]
