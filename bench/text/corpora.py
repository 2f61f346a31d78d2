"""Real texts for the benchmarks: e-mails, chat messages, speeches. Each function skips nothing silently: a missing folder ends the run."""

import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np

FOLDERS = (Path(__file__).resolve().parents[3] / "shared" / "data", Path("/work/shared/data"))


def load(name):
    folder = next((one for one in FOLDERS if one.exists()), None)
    if folder is None:
        sys.exit("The data folder is missing: looked for " + ", ".join(map(str, FOLDERS)) + ".")
    sys.path.insert(0, str(folder))
    from load import load as read

    return read(name)


def words_of(text):
    """Words and punctuation in lower case, with spaces between them."""
    return " ".join(re.findall(r"[a-z]+(?:'[a-z]+)?|\d+|[^\sa-z\d]", text.lower()))


def emails(seed, judged=600):
    """Ham e-mails: those that are judged, and the rest, which is public."""
    table = load("spamassassin_emails")
    bodies = [words_of(body) for body in table.body[table.spam == 0]]
    bodies = list(dict.fromkeys(body for body in bodies if len(body.split()) >= 20))
    order = np.random.default_rng([seed, 18]).permutation(len(bodies))
    return [bodies[one] for one in order[:judged]], [bodies[one] for one in order[judged:]]


def reviews(seed, judged=600):
    """Film reviews: those that are judged, and public ones, of other films."""
    table = load("imdb_reviews_20k").drop_duplicates("text")
    films = np.random.default_rng([seed, 24]).permutation(table.movie.unique())
    own = table[table.movie.isin(films[: len(films) // 2])].sample(judged, random_state=seed)
    public = table[table.movie.isin(films[len(films) // 2 :])].sample(2500, random_state=seed)
    return [words_of(text) for text in own.text], [words_of(text) for text in public.text]


def speeches(seed, judged=600):
    """Pieces of 64 words of presidents' speeches: those that are judged, and pieces of other speeches."""
    table = load("sotu_1790_2026").sample(frac=1.0, random_state=seed)
    parts = []
    for some in (table.text[:125], table.text[125:]):
        words = [words_of(text).split() for text in some]
        parts.append(
            [" ".join(own[place : place + 64]) for own in words for place in range(0, len(own) - 64, 64)]
        )
    draw = np.random.default_rng([seed, 25])
    own, public = (dict.fromkeys(part) for part in parts)
    own, public = (list(part) for part in (own, public))
    return ([own[one] for one in draw.permutation(len(own))[:judged]],
            [public[one] for one in draw.permutation(len(public))[:5000]])  # fmt: skip


def chats(seed, users=240, trained=10, other=30):
    """Chat users with enough messages: the trained messages of each, other messages, and messages of the rest."""
    table = load("chitchat_users")
    table = table.assign(words=[words_of(str(text)) for text in table.text])
    table = table[table.words.str.split().str.len() >= 3].drop_duplicates(["sender", "words"])
    sizes = table.groupby("sender").size()
    random = np.random.default_rng([seed, 19])
    enough = random.permutation(sizes.index[sizes >= trained + other].to_numpy())
    judged = enough[:users]
    mine = table[table.sender.isin(judged)].sample(frac=1.0, random_state=seed)
    place = mine.groupby("sender").cumcount()
    public = table[~table.sender.isin(judged)]
    return mine[place < trained], mine[(place >= trained) & (place < trained + other)], public


def public_words(texts, size):
    """The most frequent words of public text."""
    counts = Counter(word for text in texts for word in text.split())
    return tuple(word for word, _ in counts.most_common(size))
