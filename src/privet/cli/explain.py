"""``privet explain``: what a guarantee means for a person."""

import argparse
import math
from pathlib import Path

from privet.adjacency import Adjacency
from privet.caveats import Caveat
from privet.cli.account import claim_document, claim_sentence, epsilon_of, neighbours, warnings_of
from privet.cli.meaning import Meaning, meaning_of
from privet.cli.meaning_picture import meaning_picture
from privet.cli.output import (
    CliAnswer,
    caveat_text,
    facts,
    paragraph,
    percent,
    percent_down,
    percent_up,
    rounded_up,
    table,
)
from privet.cli.query import read_query
from privet.errors import InvalidArgument
from privet.paths import is_folder

__all__ = ["checked_plot", "run", "save_plot"]

_QUESTIONS = {
    "add-remove": "whether a given {unit} is in the data",
    "replace-one": "which of two given {unit}s is in the data",
    "zero-out": "whether a given {unit}'s contribution was counted",
}


def run(arguments: argparse.Namespace) -> CliAnswer:
    """A guarantee in words, as a table, and as a picture."""
    target = checked_plot(arguments.plot)
    question = read_query(arguments)
    bounds = epsilon_of(question)
    guarantee = question.guarantee
    meaning = meaning_of(guarantee, question.delta)
    document = {
        **claim_document(question, bounds),
        "tpr": [{"fpr": fpr, "tpr": tpr} for fpr, tpr in meaning.tpr],
        "posterior": [{"prior": p, "lower": b.lower, "upper": b.upper} for p, b in meaning.posterior],
        "posterior_failure": meaning.kept.failure,
        "advantage": meaning.advantage,
    }
    blocks = [
        claim_sentence(question, bounds) + ".",
        *warnings_of(guarantee.caveats),
        _words(meaning, guarantee.adjacency),
        _attack_table(meaning),
        _belief_table(meaning),
        facts(
            [
                ("advantage", f"{rounded_up(meaning.advantage)}, the most that TPR − FPR can be"),
                ("accountant", guarantee.accountant),
                ("adjacency", neighbours(guarantee.adjacency, chosen=question.chosen)),
            ]
        ),
        *caveat_text(guarantee.caveats - {Caveat.DELTA_TOO_LARGE}),
    ]
    if target is not None:
        heading = f"What ε ≤ {rounded_up(bounds.upper, 4)} at δ = {question.delta:g} means for one person"
        save_plot(target, meaning_picture(heading, guarantee, question.delta, meaning))
        document["plot"] = str(target)
        blocks.append(f"The picture is in {target}.")
    return CliAnswer(blocks, document)


def checked_plot(name: str | None) -> Path | None:
    """The path of the picture. A path that cannot be an SVG is refused before any work."""
    if name is None:
        return None
    path = Path(name)
    if path.suffix.lower() != ".svg":
        raise InvalidArgument(f"'--plot' must name a file that ends in .svg, got {name!r}. Rename it.")
    if not is_folder(path.parent) or is_folder(path):
        raise InvalidArgument(
            f"'--plot' must name a file in a folder that exists, got {name!r}. "
            f"Make the folder, or choose another."
        )
    return path


def save_plot(path: Path, picture: str) -> None:
    """Write a picture."""
    try:
        path.write_text(picture, encoding="utf-8")
    except OSError as failed:
        raise InvalidArgument(
            f"'--plot' must name a file that can be written, got {str(path)!r} ({failed.strerror}). "
            f"Choose another."
        ) from failed


def _words(meaning: Meaning, adjacency: Adjacency) -> str:
    fpr, tpr = meaning.tpr[1]
    prior, belief = meaning.posterior[1]
    even = 0.5 * (1 + meaning.advantage)
    exception = (
        f", except with a probability of at most {meaning.kept.failure:g}" if meaning.kept.failure else ""
    )
    lines = [
        f"An attack that raises a false alarm in {percent(fpr)} of the cases is right in at most "
        f"{percent_up(tpr)} of those where it should, {_times(tpr / fpr)} times as often as "
        f"blind guessing.",
        f"Asked with even odds, no attack answers rightly more than {percent_up(even)} of the time.",
        f"A reader who thought it {percent(prior)} likely will end between {percent_down(belief.lower)} and "
        f"{percent_up(belief.upper)}, whatever else they know{exception}.",
    ]
    asked_for = _QUESTIONS[adjacency.relation].format(unit=adjacency.unit)
    bullets = "\n".join(paragraph(sentence, bullet="  · ") for sentence in lines)
    return f"An attacker asks {asked_for}.\n{bullets}"


def _attack_table(meaning: Meaning) -> str:
    rows = [(percent(fpr), percent_up(tpr), f"{_times(tpr / fpr)} ×") for fpr, tpr in meaning.tpr]
    return table(("false-positive rate", "true-positive rate ≤", "of guessing"), rows)


def _belief_table(meaning: Meaning) -> str:
    rows = [
        (percent(prior), percent_down(belief.lower), percent_up(belief.upper))
        for prior, belief in meaning.posterior
    ]
    return table(("belief before", "after ≥", "after ≤"), rows)


def _times(ratio: float) -> str:
    """How many times, rounded up.

    >>> _times(20.0855), _times(2990.9)
    ('20.1', '2,991')
    """
    return rounded_up(ratio, 3) if ratio < 100 else f"{math.ceil(ratio):,}"
