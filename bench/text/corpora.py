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
