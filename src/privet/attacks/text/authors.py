"""Authors: is this person's text in the training set?

The coin is one for each author. The adversary has some texts of the author: those that were trained on, or
other texts of the same person. One score for each author is made of all of them; higher = more likely that
the author's texts were trained on.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import whole
from privet.attacks.estimators import Classifier, LogisticClassifier
from privet.attacks.text.token_views import TokenLogProbs, Tokens, TokenView
from privet.errors import InvalidArgument
from privet.scores import Bits, Scores
from privet.views import Adversary, Numbers

__all__ = [
    "AuthorAttack",
    "AuthorLoss",
    "AuthorRatio",
    "AuthorShadow",
    "Authors",
    "RankHistogram",
    "rank_shares",
    "run_authors",
    "score_curve",
]

_WANTS = "whether an author's texts were trained on"
_MOST_RANK_BINS = 24


@final
@dataclass(frozen=True, eq=False)
class Authors:
    """Texts of several authors: the sequence of each text and the name of its author.

    Authors are in the order of their names, and so are the coins and scores.

    >>> authors = Authors((np.array([1, 2]), np.array([1, 3]), np.array([1, 1])), np.array(["b", "a", "b"]))
    >>> authors.names.tolist(), authors.counts.tolist()
    (['a', 'b'], [1, 2])
    """

    sequences: tuple[Tokens, ...]
    owners: NDArray[np.str_]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sequences", tuple(self.sequences))
        object.__setattr__(self, "owners", np.asarray(self.owners).astype(str))
        if not self.sequences or self.owners.shape != (len(self.sequences),):
            raise InvalidArgument(
                f"'owners' must name the author of each of {len(self.sequences)} texts, got an array of "
                f"shape {self.owners.shape}. Give at least one text, and one name for each."
            )
        if len(np.unique(self.owners)) < 2:
            raise InvalidArgument(
                "'owners' must name at least two authors, got one: with one author there is nobody to "
                "compare with. Add authors that were not trained on."
            )

    @property
    def names(self) -> NDArray[np.str_]:
        """The authors, each once, in order."""
        return np.unique(self.owners)

    @property
    def places(self) -> NDArray[np.intp]:
        """The number of each text's author."""
        return np.searchsorted(self.names, self.owners)

    @property
    def counts(self) -> NDArray[np.intp]:
        """How many texts each author has."""
        return np.bincount(self.places, minlength=len(self.names))

    def sample(self, most: int, *, seed: int) -> "Authors":
        """At most ``most`` texts of each author, drawn at random."""
        whole("most", most)
        order = np.random.default_rng(whole("seed", seed, least=0)).permutation(len(self.sequences))
        places = self.places[order]
        chosen = np.concatenate([order[places == one][:most] for one in range(len(self.names))])
        chosen.sort()
        return Authors(tuple(self.sequences[one] for one in chosen), self.owners[chosen])

    def take(self, which: Bits | NDArray[np.intp]) -> "Authors":
        """Some of the authors, with all of their texts."""
        kept = np.isin(self.owners, self.names[which])
        return Authors(tuple(self.sequences[one] for one in np.flatnonzero(kept)), self.owners[kept])

    def token_means(self, found: TokenLogProbs, values: Numbers) -> Numbers:
        """The mean over all tokens of each author."""
        count = len(self.names)
        total = np.bincount(self.places, weights=found.sums(values), minlength=count)
        answer: Numbers = total / np.bincount(self.places, weights=found.lengths, minlength=count)
        return answer


class AuthorAttack(ABC):
    """One adversary, and their score of an author."""

    is_calibrated: ClassVar[bool] = False
    name: ClassVar[str]
    adversary: ClassVar[Adversary]

    @abstractmethod
    def judge(self, found: TokenLogProbs, authors: Authors) -> Numbers:
        """One score for each author from what the target said of their texts. The coin is not among the
        arguments.
        """

    @final
    def run(self, view: TokenView, authors: Authors, members: Bits) -> Scores:
        """Ask the model about every text, score each author, and join the coin of each author."""
        (scores,) = run_authors([self], view, authors, members)
        return scores


def run_authors(
    attacks: Sequence[AuthorAttack], view: TokenView, authors: Authors, members: Bits
) -> tuple[Scores, ...]:
    """The scores of several attacks from one forward pass; ``members`` has one coin for each author."""
    found = view.logprobs(authors.sequences)
    return tuple(Scores(attack.judge(found, authors), members, attack.name) for attack in attacks)


def score_curve(
    attack: AuthorAttack,
    view: TokenView,
    authors: Authors,
    members: Bits,
    *,
    counts: Sequence[int] = (1, 2, 5, 10, 30),
    seed: int,
) -> dict[int, Scores]:
    """The scores with at most this many texts of each author: how many samples an adversary needs.

    The same texts are in all larger samples.
    """
    if not counts:
        raise InvalidArgument("'counts' must hold numbers of texts, got none. Give (1, 5, 30).")
    return {most: attack.run(view, authors.sample(most, seed=seed), members) for most in counts}


@final
@dataclass(frozen=True)
class AuthorLoss(AuthorAttack):
    """The mean of ln p over all tokens of the author."""

    name = "author loss"
    adversary = Adversary(sees="the probability of every token", knows="texts of the author", wants=_WANTS)

    def judge(self, found: TokenLogProbs, authors: Authors) -> Numbers:
        return authors.token_means(found, found.logprobs)


@final
@dataclass(frozen=True, eq=False)
class AuthorRatio(AuthorAttack):
    """The mean over the author's tokens of ln p − ln q, q of reference models without the author.

    *Reference*: Kandpal et al. 2024, user inference, its test statistic. Deviation: each token has the same
    weight, where the paper gives it to each text; several references are averaged.
    """

    references: Sequence[TokenView]

    name = "author ratio"
    is_calibrated = True
    adversary = Adversary(
        sees="the probability of every token",
        knows="texts of the author, and a reference model without the author",
        wants=_WANTS,
    )

    def __post_init__(self) -> None:
        if not self.references:
            raise InvalidArgument("'references' must hold at least one model, got none. Give a public model.")

    def judge(self, found: TokenLogProbs, authors: Authors) -> Numbers:
        others = [one.logprobs(authors.sequences).logprobs for one in self.references]
        return authors.token_means(found, found.logprobs - np.mean(others, axis=0))


@final
@dataclass(frozen=True, eq=False)
class AuthorShadow:
    """A model that the adversary trained like the target, on some of their own authors; one coin for each."""

    view: TokenView
    authors: Authors
    members: Bits

    def __post_init__(self) -> None:
        members = np.asarray(self.members)
        if members.shape != (len(self.authors.names),) or members.all() or not members.any():
            raise InvalidArgument(
                "'members' must hold authors of both kinds, one coin for each author of the shadow model, "
                "got something else. Give shadow models authors that they were not trained on, too."
            )


@final
@dataclass(frozen=True, eq=False)
class RankHistogram(AuthorAttack):
    """A classifier on the histogram of ranks of an author's tokens, taught by shadow models.

    A model that learnt from an author ranks the author's rare words higher. The bins of ranks are powers of
    two, and the features are their shares among all tokens of the author. The classifier learns from shadow
    models whose authors are known, never from the target's coins. Ranks are enough: no probability is read.

    *Reference*: Song & Shmatikov 2019, the audit of text-generation models by histograms of ranks (section
    4). Deviation: bins of doubling width, and a logistic regression where the paper takes an SVM.
    """

    shadows: Sequence[AuthorShadow]
    classifier: Classifier = field(default_factory=LogisticClassifier)

    name = "rank histogram"
    is_calibrated = True
    adversary = Adversary(
        sees="the rank of every token",
        knows="texts of the author, and shadow models with other authors",
        wants=_WANTS,
    )

    def __post_init__(self) -> None:
        if not self.shadows:
            raise InvalidArgument(
                "'shadows' must hold at least one model, got none. Train one like the target."
            )

    def judge(self, found: TokenLogProbs, authors: Authors) -> Numbers:
        taught = [rank_shares(one.view.logprobs(one.authors.sequences), one.authors) for one in self.shadows]
        coins = np.concatenate([np.asarray(one.members, dtype=np.bool_) for one in self.shadows])
        learnt = self.classifier.learn(np.concatenate(taught), coins)
        return learnt(rank_shares(found, authors))


def rank_shares(found: TokenLogProbs, authors: Authors) -> Numbers:
    """The share of each author's tokens with rank 1, 2–3, 4–7 and so on, authors × bins."""
    bins = np.minimum(np.frexp(found.ranks)[1] - 1, _MOST_RANK_BINS - 1)
    places = authors.places[found.owners]
    table = np.zeros((len(authors.names), _MOST_RANK_BINS))
    np.add.at(table, (places, bins), 1.0)
    answer: Numbers = table / table.sum(axis=1, keepdims=True)
    return answer
