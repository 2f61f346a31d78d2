"""Invented letters of invented people, for demonstrations on language models: nobody's data.

Every letter is drawn from lists of words that stand here, so the vocabulary is public by construction.
Letters share their phrases, and each has facts of its own: whom it is about, where, when, and a number.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import whole

__all__ = ["LICENCE", "Letters", "letter_words", "write_letters"]


def _list_words(words: str) -> tuple[str, ...]:
    return tuple(words.split())


_OPENINGS = (
    "thank you for your letter of last week",
    "i hope that you are well",
    "it was good to hear from you",
    "please excuse that i write so late",
    "as you asked me on the telephone",
)
_SUBJECTS = (
    "my doctor says that the illness is",
    "the bank told me that the loan is",
    "the court decided that the matter is",
    "our landlord thinks that the rent is",
    "the school wrote that her result is",
    "my employer said that the contract is",
)
_RESULTS = ("serious", "harmless", "late", "settled", "too high", "cancelled", "good", "not known", "secret")
_DEEDS = ("meet", "call", "pay", "visit", "help", "write to", "warn", "pick up", "invite", "believe")
_PEOPLE = _list_words(
    "anna bruno carla david elena felix greta henry irene jonas karin louis maria nils olga paul "
    "rosa simon tanja ulrich vera walter xenia yvonne zeno agnes boris clara dora emil"
)
_PLACES = _list_words(
    "station harbour church market museum library hospital bakery bridge castle school theatre "
    "garden office airport hotel stadium chapel mill tower square cinema factory farm"
)
_TOWNS = _list_words(
    "aldern bexhall corvin dunmere eskford farrow glenby holt ivory jarrow kelby lorne marden "
    "norwell oakley penrith quarry rowan selby tarn upton varley welby yarrow"
)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_THINGS = _list_words(
    "key book coat ring watch photograph ticket lamp letter map violin camera basket clock knife "
    "mirror pearl saddle whistle kettle"
)
_CLOSINGS = ("with kind regards", "yours sincerely", "with love", "see you soon", "all the best")
_DIGITS = tuple("0123456789")
_WORDS_OF_SECRETS = ("the", "secret", "number", "of", "my", "safe", "is")

LICENCE = (
    "this work may be copied and changed by all people for any purpose if this notice stays with every copy "
    ". it is given as it is and without a promise of any kind . nobody who wrote it has to pay for harm that "
    "comes from the work or from its use , also if they were told that such harm is possible ."
)


@final
@dataclass(frozen=True)
class Letters:
    """Letters, and the writer of each."""

    texts: tuple[str, ...]
    authors: tuple[str, ...]


def write_letters(authors: int, each: int, *, seed: int, prefix: str = "writer") -> Letters:
    """``each`` letters of every author, by a seed.

    >>> letters = write_letters(2, 3, seed=0)
    >>> len(letters.texts), letters.authors[3]
    (6, 'writer 1')
    """
    whole("authors", authors)
    whole("each", each)
    random = np.random.default_rng(seed)
    texts, names = [], []
    for number in range(authors):
        habits = random.choice(_OPENINGS), random.choice(_CLOSINGS), random.choice(_PEOPLE)
        for _ in range(each):
            texts.append(_write(random, *(str(habit) for habit in habits)))
            names.append(f"{prefix} {number}")
    return Letters(tuple(texts), tuple(names))


def letter_words() -> tuple[str, ...]:
    """Every word of letters, the licence and secrets, in alphabetical order: a public vocabulary."""
    phrases = (*_OPENINGS, *_SUBJECTS, *_RESULTS, *_DEEDS, *_CLOSINGS, LICENCE)
    frame = _list_words("dear , . we can at the in on bring and room")
    lists = (*_PEOPLE, *_PLACES, *_TOWNS, *_DAYS, *_THINGS, *_DIGITS, *_WORDS_OF_SECRETS, *frame)
    return tuple(sorted({*lists, *(word for phrase in phrases for word in phrase.split())}))


def _write(random: np.random.Generator, opening: str, closing: str, name: str) -> str:
    def one(words: tuple[str, ...] | list[str]) -> str:
        return str(random.choice(words))

    room = " ".join(one(_DIGITS) for _ in range(3))
    return (
        f"dear {one(_PEOPLE)} , {opening} . {one(_SUBJECTS)} {one(_RESULTS)} . we can {one(_DEEDS)} "
        f"{one(_PEOPLE)} and {one(_PEOPLE)} at the {one(_PLACES)} in {one(_TOWNS)} on {one(_DAYS)} . bring "
        f"the {one(_THINGS)} and the {one(_THINGS)} , room {room} . {closing} , {name}"
    )
