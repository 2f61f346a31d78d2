"""Sentences and advice on a language model, for every form of a report."""

from privet.reporting.advice_piece import Advice
from privet.reporting.facts import ModelAudit
from privet.reporting.numbers import count
from privet.reporting.text_facts import ExposedUnit, TextFacts

__all__ = ["text_advice", "text_sentences"]


def text_sentences(found: TextFacts) -> list[str]:
    """What was asked, what is remembered of whom, and what a secret would be worth."""
    of_authors = "" if found.authors is None else f" of {count(found.authors)} authors"
    unit = "author, with all texts of the author" if found.authors is not None else "text"
    sentences = [
        f"{count(found.texts)} texts{of_authors} were asked about, {count(found.tokens)} tokens. Coins "
        f"decided on each {found.coin_unit}, so every ε is that of one {unit}.",
        f"A token of a text that was trained on costs the model {found.loss_on_members:.2f} nats, one of a "
        f"text that was left out {found.loss_on_others:.2f}.",
    ]
    for noun, units, left_out in (
        ("authors", found.exposed_authors, found.authors_left_out),
        ("texts", found.exposed_texts, found.texts_left_out),
    ):
        sentences += _exposed_sentences(noun, units, left_out)
    repeated = [each for each in found.passages if each.extracted]
    if found.passages and not repeated:
        longest = max(each.matched for each in found.passages)
        sentences.append(
            f"No passage was repeated in full. The longest beginning that the model repeats has "
            f"{count(longest)} of {count(found.passages[0].length)} tokens."
        )
    elif repeated:
        sentences.append(
            f"The model writes whole passages of texts that it was trained on when it is given what stands "
            f"before them, {count(repeated[0].length)} tokens each."
        )
    return [*sentences, *_secret_sentences(found)]


def _exposed_sentences(noun: str, units: tuple[ExposedUnit, ...], left_out: int) -> list[str]:
    flagged = sum(unit.flagged for unit in units)
    if not units or not flagged:
        return []
    more = "At least " if flagged == len(units) else ""
    beaten = (
        f"all {count(left_out)}"
        if units[0].as_high == 0
        else f"all but {count(units[0].as_high)} of {count(left_out)}"
    )
    stand = f"{noun} stand" if flagged > 1 else f"{noun[:-1]} stands"
    return [
        f"{more}{count(flagged)} {stand} out beyond coincidence; the first scores higher than {beaten} that "
        f"were left out."
    ]


def _secret_sentences(found: TextFacts) -> list[str]:
    planted = [each for each in found.exposure if each.copies]
    if not planted or found.blind_bits is None or found.most_bits is None:
        return []
    most = planted[-1]
    copies = "once" if most.copies == 1 else f"{count(most.copies)} times"
    return [
        f"A secret that was inserted {copies} has a mean exposure of {most.mean:.1f} bits. One that the "
        f"model never saw has {found.blind_bits:.2f}, and one that it puts first {found.most_bits:.1f}."
    ]


def text_advice(audit: ModelAudit) -> list[Advice]:
    """What to do about a language model before it is published."""
    found = audit.text
    if found is None:
        return []
    pieces = []
    if any(passage.extracted for passage in found.passages):
        pieces.append(
            Advice(
                "Remove duplicates, and do not release the model while it repeats passages.",
                "Texts that occur several times are repeated first. Remove copies and near-copies, train "
                "for fewer epochs, and audit again. A filter on the output hides a passage and does not "
                "remove it.",
            )
        )
    if audit.claim is None and found.authors is not None:
        pieces.append(
            Advice(
                "Protect authors, and not single texts.",
                "Train with the user as the unit (privet.training.gather_users), so that ε holds for all "
                "texts of an author together.",
            )
        )
    return pieces
