"""Sections on trust: assumptions, caveats, checks, advice, how to reproduce the figures, and a glossary."""

from privet.checks import Check, Outcome
from privet.reporting.advice import advice
from privet.reporting.content import ReportContent
from privet.reporting.facts import ModelAudit
from privet.reporting.markup import (
    Html,
    bullet_list,
    description_list,
    details,
    element,
    join_html,
    paragraph,
    section,
    table,
    text,
)
from privet.reporting.numbers import percent, small

__all__ = ["next_section", "reproduce_section", "trust_section", "words_section"]

_SAVE = 'report.save("report.html")'
_TABLE_WORDS = [
    ("Quasi-identifier", "a column that others can know of a person, such as zip code, birth date and sex."),
    ("Class", "rows that agree in all quasi-identifiers; a row that is alone in its class is unique."),
    ("k-anonymity", "every class has at least k rows."),
    ("l-diversity", "every class has at least l different values of the secret."),
    ("t-closeness", "in no class is the secret distributed further than t from the whole table."),
    (
        "Baseline of a table",
        "how often the same attack is right about people who are not in it: each is looked for in the table "
        "without their own row, or comes from a control group.",
    ),
]
_SIGNS = {Outcome.PASSED: "✓", Outcome.WARNED: "!", Outcome.SKIPPED: "–"}


def trust_section(prefix: str, audit: ModelAudit) -> Html:
    """The assumptions, caveats and checks behind the figures."""
    parts = [
        element("h4", text("What was assumed")),
        bullet_list(text(words) for words in _assumptions(audit)),
    ]
    if audit.caveats:
        parts += [
            element(
                "h4", text("What the figures rest on" if audit.claim is None else "What the proof rests on")
            ),
            bullet_list(text(caveat.sentence) for caveat in audit.caveats),
        ]
    parts.append(element("h4", text("What was checked before the attacks")))
    if audit.checks:
        parts.append(element("ul", join_html(_check(check) for check in audit.checks), {"class": "checks"}))
    else:
        parts.append(
            paragraph(
                "Nothing was checked: only scores were given. If members and others differ even without the "
                "model, or contain copies of each other, an attack looks stronger or weaker than it is."
            )
        )
    parts.append(
        details(
            "Who attacked: what each adversary sees and knows",
            table(
                "Adversaries",
                ["Attack", "Sees", "Knows", "Wants", "Bound by"],
                [
                    [
                        text(result.name),
                        text(result.adversary.sees),
                        text(result.adversary.knows),
                        text(result.adversary.wants),
                        text(result.method),
                    ]
                    for result in audit.results
                ]
                + [
                    [
                        text(recovery.name),
                        text(recovery.adversary.sees),
                        text(recovery.adversary.knows),
                        text(recovery.adversary.wants),
                        text(recovery.bound.method),
                    ]
                    for recovery in audit.recoveries
                ],
                "wordy",
            ),
        )
    )
    return section(f"{prefix}-trust", "Assumptions, caveats and checks", parts, level=3)


def _assumptions(audit: ModelAudit) -> list[str]:
    if audit.table is not None:
        return _table_assumptions(audit)
    sentences = [
        "Chance alone decided which of the scored records were trained on, and nothing else tells members "
        "from others.",
        f"All bounds on ε, intervals and comparisons hold together with {percent(audit.confidence)} "
        f"confidence. Membership counts as detected where one of them, on people's records, excludes chance.",
        "What is measured is a lower bound: what other attacks would find is not known.",
    ]
    return [*sentences, *_proof_assumption(audit)]


def _table_assumptions(audit: ModelAudit) -> list[str]:
    return [
        "An adversary knows the quasi-identifiers of a person as they stand in the table. One who knows "
        "other columns finds more.",
        "A row is a person. A target who is left out is looked for in the same table without their row."
        if audit.table is not None and audit.table.rows_are_people
        else "Chance alone decided who was in the original and who is in the control.",
        f"All bounds on ε and intervals hold together with {percent(audit.confidence)} confidence.",
        "What is measured is a lower bound: what other attacks would find is not known.",
        *_proof_assumption(audit),
    ]


def _proof_assumption(audit: ModelAudit) -> list[str]:
    if audit.claim is None:
        return []
    return [
        (
            f"The proof is for {audit.claim.adjacency} at δ = {small(audit.delta)}, by the accountant "
            f"“{audit.claim.accountant}”, and for what the ledger records: other uses of the same data add "
            f"to it."
        )
    ]


def _check(check: Check) -> Html:
    sign = element("span", text(_SIGNS[check.outcome]), {"class": "sign", "aria-hidden": "true"})
    head = element("strong", text(f"{check.name[:1].upper()}{check.name[1:]}: {check.outcome}."))
    words = " ".join(
        part for part in (check.finding, check.advice if check.outcome is Outcome.WARNED else "") if part
    )
    return element(
        "li", join_html([sign, element("div", join_html([head, text(words)]))]), {"class": str(check.outcome)}
    )


def next_section(prefix: str, report: ReportContent, audit: ModelAudit) -> Html:
    """Advice, each piece with its figures."""
    items = [
        join_html([element("strong", text(piece.what)), element("p", text(piece.why))])
        for piece in advice(report, audit)
    ]
    if not items:
        items = [
            text(
                "These figures call for nothing. Audit again when the model, its data or its training "
                "changes."
            )
        ]
    steps = element("ol", join_html(element("li", item) for item in items), {"class": "steps"})
    return section(f"{prefix}-next", "What to do next", [steps], level=3)


def reproduce_section(report: ReportContent) -> Html:
    """The command, the versions, the seed, the reference models, and the Python call that gives the same
    figures.
    """
    origin = report.origin
    seed = "none was given" if origin.seed is None else str(origin.seed)
    facts = [
        ("Command", origin.command),
        ("Privet", origin.version),
        ("Seed", seed),
        ("Made", origin.created.strftime("%Y-%m-%d %H:%M %Z")),
        ("Time taken", f"{sum(audit.seconds for audit in report.audits):.0f} s"),
        *(
            (f"Reference models of {audit.name}", str(audit.reference_models))
            for audit in report.audits
            if audit.reference_models is not None
        ),
    ]
    return section("reproduce", "How to reproduce this", [description_list(facts), *_python(report)])


def _python(report: ReportContent) -> list[Html]:
    """The Python call that gives the same figures, where it is known."""
    origin = report.origin
    if origin.call is None:
        return []
    tables = all(audit.table is not None for audit in report.audits)
    code = "\n".join(["import privet", "", f"report = {origin.call}", _SAVE])
    return [
        paragraph(f"In Python, with the same {'tables' if tables else 'model and records'}:"),
        element("pre", element("code", text(code)), {"tabindex": "0", "aria-label": "Python"}),
    ]


def words_section(report: ReportContent) -> Html:
    """A glossary."""
    tables = any(audit.table is not None for audit in report.audits)
    words = [
        *(_TABLE_WORDS if tables else []),
        ("Member", "a record that the model was trained on."),
        (
            "False-alarm rate (FPR)",
            "of those who were not in the data, the share that the attack calls members.",
        ),
        ("Members found (TPR)", "of those who were in the data, the share that the attack calls members."),
        ("AUC", "how often a member scores above a non-member; 0.5 is chance, 1 is always."),
        (
            "ε, δ",
            "differential privacy: one record changes the probability of any outcome by a factor of e^ε at "
            "most, up to δ. Small is good; it is about the worst case.",
        ),
        ("Measured", "shown by an attack: the true ε is at least this, with the confidence stated."),
        ("Proved", "shown by a theorem and the record of what was done: the true ε is at most this."),
        (
            "Not detected at this power",
            "the attacks that were run, on so many records, could not tell members from others. It says no "
            "more.",
        ),
    ]
    listing = element(
        "dl",
        join_html(
            join_html([element("dt", text(word)), element("dd", text(meaning))]) for word, meaning in words
        ),
        {"class": "words"},
    )
    return section("words", "What the words mean", [details("Show the words", listing)])
