"""``audit_release``: who could be found in a table before it is published, and what it tells about them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from privet import __version__
from privet.accounting import account
from privet.arguments import format_value, open_fraction, whole
from privet.attacks.linkage.uniqueness import check_number, check_quasi
from privet.auditing import Shares
from privet.checks import Check, Outcome
from privet.errors import InvalidArgument
from privet.fingerprints import FingerprintKey, Fingerprints, ledger_fingerprint
from privet.ledger import Ledger
from privet.pipeline.published_files import read_published, table_fingerprint
from privet.pipeline.recovery_results import judge_recoveries
from privet.pipeline.release_attacks import ReleaseGame, run_attacks
from privet.pipeline.reproducing import format_call, one_line
from privet.pipeline.table_measures import measure_table
from privet.public_calls import check_public_calls
from privet.published_tables import PublishedTable, ValueKind
from privet.recoveries import Recoveries
from privet.reporting.facts import ModelAudit, Origin
from privet.reporting.report import Report

__all__ = ["audit_release"]

_POPULATION_SHARE = 0.2  # of the failure probability, where the table is a sample


@final
@dataclass(frozen=True, eq=False)
class _Options:
    """The arguments that decide a figure, for the call that reproduces the report."""

    name: str
    quasi: tuple[str, ...]
    secret: str | None
    key: str | None
    fraction: float | None
    largest_set: int | None
    population: int | None
    delta: float
    confidence: float
    seed: int


def audit_release(
    table: object,
    *,
    quasi: Sequence[str],
    secret: str | None = None,
    other: object = None,
    key: str | None = None,
    original: object = None,
    control: object = None,
    population: object = None,
    sampling_fraction: float | None = None,
    largest_set: int | None = None,
    ledger: Ledger | None = None,
    delta: float = 1e-5,
    confidence: float = 0.95,
    seed: int = 0,
    name: str | None = None,
    fingerprint_key: FingerprintKey | None = None,
) -> Report:
    """Audit a table that is to be published: measure who is unique, attack it, and report.

    ``table`` is a frame, an Arrow table, a dictionary of columns, or the path of a .csv or .parquet file.
    ``quasi`` names the columns that others can know of a person, ``secret`` the column that they must not
    learn. Then, as far as it is given:

    - ``other`` is a second table about some of the same people, and ``key`` the column of both that says who
      is who; no attack sees it. Its rows are linked with the table; where it has the secret, too, the two
      are attacked as two releases.
    - ``original`` is what a synthetic table was made of, and ``control`` people who were not in it. Then rows
      of the table are nobody's, and the attacks on synthetic data take the place of those on rows.
    - ``population`` is a table of all people, for δ-presence. ``sampling_fraction`` says that the table is a
      random sample of this share of the population.
    - ``ledger`` records what was spent on the table. It puts a ceiling on every attack.

    Sets of up to ``largest_set`` quasi-identifiers are measured, 4 unless that is too many.

    >>> import numpy as np
    >>> coins = np.random.default_rng(0)
    >>> zips, ages = coins.integers(0, 90, 600), coins.integers(18, 90, 600)
    >>> report = audit_release({"zip": zips, "age": ages}, quasi=["zip", "age"])
    >>> audit = report.audits[0]
    >>> audit.table.k_anonymity, round(audit.table.unique_share, 2), audit.standing.value
    (1, 0.91, 'leaks')
    """
    started = time.monotonic()
    open_fraction("delta", delta)
    open_fraction("confidence", confidence)
    whole("seed", seed, least=0)
    if largest_set is not None:
        whole("largest_set", largest_set)
    if sampling_fraction is not None and not 0 < sampling_fraction <= 1:
        raise InvalidArgument(
            f"'sampling_fraction' must be above 0 and at most 1, got {format_value(sampling_fraction)}. Give "
            f"the share of the population that is in the table, 0.05 for a sample of 5 %."
        )
    check_number(quasi)
    _check_combination(other=other, key=key, original=original, control=control, ledger=ledger)
    everything = other is not None or original is not None
    columns = [*quasi, *([] if secret is None else [secret]), *([] if key is None else [key])]
    published = read_published("table", table, None if everything else columns)
    names = check_quasi(published, quasi, secret)
    _check_values(published, names, secret, synthetic=original is not None)
    columns_read = [*names, *([] if secret is None else [secret])]
    game = ReleaseGame(
        published=published,
        quasi=names,
        secret=secret,
        other=None if other is None else read_published("other", other),
        key=key,
        original=None if original is None else read_published("original", original),
        control=None if control is None else read_published("control", control),
        rows_are_people=ledger is None and original is None,
        seed=seed,
    )
    everybody = None if population is None else read_published("population", population, names)
    failure = 1 - confidence
    sampled = sampling_fraction is not None
    facts = measure_table(
        published,
        names,
        secret,
        largest=largest_set,
        population=everybody,
        fraction=sampling_fraction,
        confidence=1 - _POPULATION_SHARE * failure,
        rows_are_people=game.rows_are_people,
    )
    found = run_attacks(game)
    claim = None if ledger is None else account(ledger)
    attacks_confidence = 1 - (1 - _POPULATION_SHARE) * failure if sampled else confidence
    shares = Shares.of(attacks_confidence, others=[], recoveries=found.recoveries)
    secret_key = FingerprintKey.generate() if fingerprint_key is None else fingerprint_key
    title = name or (Path(table).name if isinstance(table, str | Path) else "table")
    audited = ModelAudit(
        name=title,
        delta=delta,
        results=[],
        recoveries=[judge_recoveries(each, claim, delta=delta, shares=shares) for each in found.recoveries],
        claim=claim,
        ledger=ledger,
        checks=[
            *_check_missing(published, names, secret),
            *_note(found.notes),
            *map(_check_sides, found.recoveries),
        ],
        population=len(published) if game.original is None else len(game.original),
        fingerprints=_identify(published.select(columns_read), ledger, secret_key),
        seconds=time.monotonic() - started,
        table=facts,
    )
    options = _Options(
        name=title,
        quasi=names,
        secret=secret,
        key=key,
        fraction=sampling_fraction,
        largest_set=largest_set,
        population=None if everybody is None else len(everybody),
        delta=delta,
        confidence=confidence,
        seed=seed,
    )
    call = _release_call(options, game, ledger)
    return Report(
        audits=(audited,),
        origin=Origin(command=one_line(call), version=__version__, seed=seed, call=call),
        key=secret_key,
    )


def _check_combination(
    *, other: object, key: str | None, original: object, control: object, ledger: Ledger | None
) -> None:
    if (other is None) != (key is None):
        raise InvalidArgument(
            f"'other' and 'key' must be given together, got only {'key' if other is None else 'other'}. Give "
            f"the second table, and the column of both tables that says who is who."
        )
    if (original is None) != (control is None):
        raise InvalidArgument(
            f"'original' and 'control' must be given together, got only "
            f"{'control' if original is None else 'original'}. Give the table that the synthetic one was "
            f"made of, and people who were not in it."
        )
    if ledger is not None and other is not None:
        # A person who is taken out of the finished release is no neighbour that the ledger speaks of.
        raise InvalidArgument(
            "'other' cannot be given with a ledger: the rows of a table with a proof are nobody's, so no key "
            "says whose they are. Leave out 'other', and give the table that it was made of ('original') and "
            "people who were not in it ('control')."
        )
    if ledger is not None and original is None:
        raise InvalidArgument(
            "'original' and 'control' must be given with a ledger: the rows of a table with a proof are "
            "nobody's, so people to look for must come from elsewhere. Give the table that it was made of, "
            "and people who were not in it."
        )


def _check_values(
    table: PublishedTable, quasi: Sequence[str], secret: str | None, *, synthetic: bool
) -> None:
    for name in quasi:
        if table[name].missing.all():
            raise InvalidArgument(
                f"'quasi' must name columns with values, and {format_value(name)} is missing in every row. "
                f"Leave it out."
            )
    if all((table[name].codes == table[name].codes[0]).all() for name in quasi):
        raise InvalidArgument(
            "'quasi' must name columns in which rows differ, and all rows are equal in them: nobody can be "
            "told apart by these. Name other columns that others can know."
        )
    if secret is None:
        return
    present = table[secret].codes[~table[secret].missing]
    if len(present) == 0:
        raise InvalidArgument(
            f"'secret' must name a column with values, and {format_value(secret)} is missing in every row. "
            f"Name another column."
        )
    # Numbers and dates of synthetic people are inferred within a tolerance, so they may all differ.
    near = synthetic and table[secret].kind is not ValueKind.TEXT
    if not near and len(present) > 2 and len(set(present.tolist())) == len(present):
        raise InvalidArgument(
            f"'secret' must be a value that people can share, and {format_value(secret)} is different in "
            f"every row: it is a key. Leave keys out of the table, or group the values."
        )


def _check_missing(table: PublishedTable, quasi: Sequence[str], secret: str | None) -> list[Check]:
    names = [*quasi, *([] if secret is None else [secret])]
    gaps = {name: int(table[name].missing.sum()) for name in names if table[name].missing.any()}
    if not gaps:
        return [
            Check(
                name="missing values",
                outcome=Outcome.PASSED,
                finding="No row lacks a quasi-identifier or the secret.",
                advice="",
            )
        ]
    listed = ", ".join(f"{name} in {count:,} rows" for name, count in gaps.items())
    return [
        Check(
            name="missing values",
            outcome=Outcome.WARNED,
            finding=f"Values are missing: {listed}. A missing value was taken as a value of its own.",
            advice="Fill them in, or audit again without these rows: who knows the true value does not find "
            "a row by its absence.",
        )
    ]


def _note(notes: Sequence[str]) -> list[Check]:
    return [
        Check(name="attacks on synthetic data", outcome=Outcome.PASSED, finding=words, advice="")
        for words in notes
    ]


def _check_sides(recoveries: Recoveries) -> Check:
    inside = int(recoveries.inside.sum())
    outside = len(recoveries) - inside if recoveries.members is not None else inside
    few = min(inside, outside) < 30
    return Check(
        name=f"enough targets for {recoveries.attack}",
        outcome=Outcome.WARNED if few else Outcome.PASSED,
        finding=f"{inside:,} targets are in the data and {len(recoveries) - inside:,} were left out.",
        advice="Attack more targets: with so few, only a large leak can be seen." if few else "",
    )


def _identify(published: PublishedTable, ledger: Ledger | None, key: FingerprintKey) -> Fingerprints:
    return Fingerprints(
        key=key.name,
        model=table_fingerprint(published, key),
        ledger=None if ledger is None else ledger_fingerprint(ledger),
    )


def _release_call(options: _Options, game: ReleaseGame, ledger: Ledger | None) -> str:
    lines = ["table,", f"quasi={list(options.quasi)!r},"]
    for argument, value in (("secret", options.secret), ("key", options.key)):
        if value is not None:
            lines.append(f"{argument}={value!r},")
    for argument, given in (("other", game.other), ("original", game.original), ("control", game.control)):
        if given is not None:
            lines.append(f"{argument}={argument},  # {len(given):,} rows")
    if options.population is not None:
        lines.append(f"population=population,  # {options.population:,} rows")
    if options.largest_set is not None:
        lines.append(f"largest_set={options.largest_set!r},")
    if options.fraction is not None:
        lines.append(f"sampling_fraction={options.fraction!r},")
    if ledger is not None:
        lines.append("ledger=ledger,  # what was spent on the table")
    lines += [
        f"name={options.name!r},",
        f"delta={options.delta!r},",
        f"confidence={options.confidence!r},",
        f"seed={options.seed!r},",
    ]
    return format_call("privet.audit_release", lines)


check_public_calls(__name__)
