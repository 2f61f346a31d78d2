"""Sentences on a published table, for every form of a report."""

from privet.reporting.advice_piece import Advice
from privet.reporting.facts import ModelAudit
from privet.reporting.numbers import count, percent
from privet.reporting.table_facts import PopulationShare, TableFacts, WorstSet

__all__ = ["table_advice", "table_sentences"]

_PROVE_SYNTHETIC = Advice(
    "Make the synthetic table with a proof.",
    "No list of attacks is complete. “privet synthesize” makes a table with an ε that caps every attack; "
    "audit that one with its ledger.",
)
_FEW = 5  # a class below this size is small


def table_sentences(found: TableFacts) -> list[str]:
    """What the table shows by itself."""
    known = ", ".join(found.quasi)
    if not found.rows_are_people:
        return [
            f"{percent(found.unique_share)} of {count(found.rows)} rows are unique by {known}. The table is "
            f"said to be synthetic: its rows are nobody's, so this alone says nothing about people. The "
            f"attacks say whether people of the original can be found."
        ]
    sentences = [
        f"{percent(found.unique_share)} of {count(found.rows)} rows are unique by {known}: whoever knows "
        f"these of a person finds their row. The smallest class has {_rows(found.k_anonymity)}."
    ]
    sentences += _worst_sentences(found)
    if found.l_diversity is not None and found.homogeneous_share is not None:
        values = "1 value" if found.l_diversity == 1 else f"{count(found.l_diversity)} values"
        sentences.append(
            f"The worst class has {values} of {found.secret}; {percent(found.homogeneous_share)} of rows are "
            f"in a class where all have the same one, so nobody has to find the row to know it."
        )
    if found.presence is not None:
        sentences.append(
            f"By the population table, a reader can be {percent(found.presence.lower)} to "
            f"{percent(found.presence.upper)} sure that a given person is in the table."
        )
    return [*sentences, *([] if found.population is None else [_population_sentence(found.population)])]


def _population_sentence(share: PopulationShare) -> str:
    sample = f"The table is a sample of {percent(share.fraction)} of the population."
    between = share.of_unique_rows_between
    if share.of_unique_rows is None or between is None:
        return f"{sample} At most {percent(share.between.upper)} of the population are unique."
    return (
        f"{sample} Of its unique rows, {percent(share.of_unique_rows)} are estimated to be unique in the "
        f"population, too ({percent(between.lower)} to {percent(between.upper)}, whatever the population is "
        f"like). An adversary who does not know who was drawn is wrong about the others."
    )


def _worst_sentences(found: TableFacts) -> list[str]:
    worst = _small_set(found)
    if worst is None:
        return []
    verb = "are" if len(worst.columns) > 1 else "is"
    return [f"{' and '.join(worst.columns)} alone {verb} enough for {percent(worst.share)}."]


def _small_set(found: TableFacts) -> WorstSet | None:
    """The smallest set of columns that makes half of those unique who are unique by all; None where it takes
    all of them.
    """
    return next(
        (
            each.worst[0]
            for each in found.curve[:-1]
            if found.unique_share > 0 and each.highest >= 0.5 * found.unique_share
        ),
        None,
    )


def table_advice(audit: ModelAudit) -> list[Advice]:
    """What to do about a table before it is published."""
    found = audit.table
    if found is None:
        return []
    if not found.rows_are_people:
        return [] if audit.claim is not None else [_PROVE_SYNTHETIC]
    pieces = []
    if found.k_anonymity < _FEW:
        worst = _small_set(found) or found.curve[min(1, len(found.curve) - 1)].worst[0]
        them = "them" if len(worst.columns) > 1 else "it"
        pieces.append(
            Advice(
                "Coarsen or drop the columns that single people out.",
                f"The smallest class has {_rows(found.k_anonymity)}, and {percent(found.unique_share)} of "
                f"rows are unique. Begin with {' and '.join(worst.columns)} "
                f"({percent(worst.share)} unique by {them}): a year in place of a birth date, a district in "
                f"place of a zip code. Then audit again.",
            )
        )
    if found.homogeneous_share:
        pieces.append(
            Advice(
                "Do not rely on k-anonymity for the secret.",
                f"{percent(found.homogeneous_share)} of rows are in a class where everybody has the same "
                f"{found.secret}. Larger classes help only if they mix its values.",
            )
        )
    if audit.claim is None:
        pieces.append(
            Advice(
                "Publish statistics or a synthetic table with a proof in place of the rows.",
                "No coarsening bounds what somebody with other knowledge, or with a second release, learns. "
                "“privet release” answers questions about the table and “privet synthesize” makes a table "
                "that looks like it; both have an ε that caps every attack, also those that nobody has "
                "thought of.",
            )
        )
    return pieces


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{count(number)} rows"
