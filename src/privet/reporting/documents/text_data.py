"""What a language model remembers as plain data, for ``report.json``."""

from typing import Any, TypeAlias

from privet.reporting.text_facts import ExposedUnit, MarkedPassage, Piece, TextFacts

__all__ = ["text_figures"]

_Plain: TypeAlias = dict[str, Any]


def text_figures(found: TextFacts, *, exhibits: bool) -> _Plain:
    """Exposed texts and authors by number, passages by how much of them was repeated, and secrets.

    ``exhibits`` adds words: texts, names of authors and passages, which are private data.
    """
    return {
        "coin_unit": found.coin_unit,
        "texts": found.texts,
        "tokens": found.tokens,
        "authors": found.authors,
        "loss": {"members": found.loss_on_members, "nonmembers": found.loss_on_others},
        "exposed_texts": _units(found.text_attack, found.texts_left_out, found.exposed_texts, exhibits),
        "exposed_authors": None
        if found.author_attack is None
        else _units(found.author_attack, found.authors_left_out, found.exposed_authors, exhibits),
        "passages": [_passage(each, exhibits) for each in found.passages],
        "exposure": [each._asdict() for each in found.exposure],
        "exposure_baseline": found.blind_bits,
        "exposure_largest": found.most_bits,
    }


def _units(attack: str, left_out: int, units: tuple[ExposedUnit, ...], exhibits: bool) -> _Plain:
    return {
        "attack": attack,
        "left_out": left_out,
        "most_exposed": [
            {
                "number": unit.number,
                "score": unit.score,
                "left_out_as_high": unit.as_high,
                "flagged": unit.flagged,
                "words": unit.words if exhibits else None,
            }
            for unit in units
        ],
    }


def _passage(passage: MarkedPassage, exhibits: bool) -> _Plain:
    return {
        "text": passage.number,
        "tokens": passage.length,
        "repeated": passage.matched,
        "extracted": passage.extracted,
        "agrees": list(passage.agrees),
        "prompt": passage.prompt if exhibits else None,
        "source": _pieces(passage.source) if exhibits else None,
        "written": _pieces(passage.written) if exhibits else None,
    }


def _pieces(pieces: tuple[Piece, ...]) -> list[_Plain]:
    return [{"text": piece.text, "same": piece.same} for piece in pieces]
