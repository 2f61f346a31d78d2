"""The section on a published table: who is unique in it, its classes, and the secret within them."""

from privet.reporting.charts.figures import chart_figure
from privet.reporting.charts.uniqueness import bin_name, class_chart, uniqueness_chart
from privet.reporting.facts import ModelAudit
from privet.reporting.markup import Html, bullet_list, element, join_html, section, table, text
from privet.reporting.numbers import count, percent
from privet.reporting.table_facts import TableFacts
from privet.reporting.table_words import table_sentences

__all__ = ["table_section", "table_tiles"]


def table_tiles(audit: ModelAudit) -> list[tuple[str, str, str]]:
    """Figures to remember of a table; none where a model was attacked."""
    found = audit.table
    if found is None:
        return []
    cards = [
        (
            "Unique rows",
            percent(found.unique_share),
            f"of {count(found.rows)}, by {_list(found.quasi)}",
        ),
        (
            "k-anonymity",
            count(found.k_anonymity),
            f"rows in the smallest of {count(found.classes)} classes",
        ),
    ]
    if found.l_diversity is not None:
        homogeneous = percent(found.homogeneous_share or 0.0)
        cards.append(
            (
                "l-diversity",
                count(found.l_diversity),
                f"{homogeneous} of rows are in a class with one value of {found.secret}",
            )
        )
    if found.population is not None:
        between = found.population.between
        cards.append(
            (
                "Unique in the population",
                percent(found.population.unique),
                f"an estimate; between {percent(between.lower)} and {percent(between.upper)}",
            )
        )
    return cards


def table_section(prefix: str, audit: ModelAudit) -> Html:
    """Uniqueness and classes; empty where a model was attacked."""
    found = audit.table
    if found is None:
        return Html("")
    charts = [_uniqueness_figure(prefix, found), _class_figure(prefix, found)]
    parts = [
        bullet_list((text(words) for words in table_sentences(found)), "said"),
        element("div", join_html(charts), {"class": "pair"}),
        _worst_table(found),
        _measures_table(found),
    ]
    return section(f"{prefix}-table", "Who is unique in the table", parts, level=3)


def _uniqueness_figure(prefix: str, found: TableFacts) -> Html:
    rows = [
        [
            text(str(each.size)),
            text(count(each.sets)),
            *(text(percent(share)) for share in (each.lowest, each.median, each.highest)),
        ]
        for each in found.curve
    ]
    return chart_figure(
        f"{prefix}-uniqueness-chart",
        uniqueness_chart(found.curve),
        caption=(
            "How many rows are unique for somebody who knows so many of the quasi-identifiers, over all sets "
            "of that size. Who is unique under a set is unique under every larger one."
        ),
        description="; ".join(
            f"with {each.size} known, between {percent(each.lowest)} and {percent(each.highest)} unique"
            for each in found.curve
        )
        + ".",
        height=340,
        numbers=table(
            "Share of unique rows by the number of quasi-identifiers",
            ["Known", "Sets", "Lowest", "Median", "Highest"],
            rows,
        ),
    )


def _class_figure(prefix: str, found: TableFacts) -> Html:
    return chart_figure(
        f"{prefix}-classes-chart",
        class_chart(found.bins, found.rows),
        caption=(
            "Rows that agree in all quasi-identifiers hide among each other. A class of one row hides nobody."
        ),
        description="; ".join(
            f"{percent(each.rows / found.rows)} of rows in classes of {bin_name(each)}" for each in found.bins
        )
        + ".",
        height=340,
        numbers=table(
            "Rows by the size of their class",
            ["Rows in the class", "Classes", "Rows"],
            [
                [text(bin_name(each)), text(count(each.classes)), text(count(each.rows))]
                for each in found.bins
            ],
        ),
    )


def _worst_table(found: TableFacts) -> Html:
    rows = [
        [text(str(each.size)), text(_list(worst.columns)), text(percent(worst.share))]
        for each in found.curve
        for worst in each.worst
    ]
    return table("The worst sets of each size", ["Known", "Columns", "Unique rows"], rows, "wordy")


def _measures_table(found: TableFacts) -> Html:
    rows = [
        ("k-anonymity", count(found.k_anonymity), "rows in the smallest class", "what the rows share"),
    ]
    if found.l_diversity is not None and found.l_entropy is not None and found.t_closeness is not None:
        distance = "ordered values" if found.t_ordered else "values without an order"
        rows += [
            (
                "l-diversity, distinct",
                count(found.l_diversity),
                "values of the secret in the worst class",
                "how alike or how rare the values are",
            ),
            (
                "l-diversity, entropy",
                f"{found.l_entropy:.2f}",
                "equally likely values that are as uncertain as the worst class",
                "an adversary who can rule a value out",
            ),
            (
                "t-closeness",
                f"{found.t_closeness:.3f}",
                f"largest distance of a class from the table ({distance})",
                "a second release about the same people",
            ),
        ]
    if found.presence is not None:
        rows.append(
            (
                "δ-presence",
                f"{percent(found.presence.lower)} to {percent(found.presence.upper)}",
                "how sure a reader can be that somebody of the population is in the table",
                "what the table says about them",
            )
        )
    return table(
        "Measures of anonymity, and what each misses",
        ["Measure", "Value", "It is", "It says nothing about"],
        [[text(cell) for cell in row] for row in rows],
        "wordy",
    )


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names)
