"""Membership by density: is the synthetic table denser at a person than the population is?

A generator that overfits puts too many rows near the people it was fitted on. The score of a person is
ln p_synthetic − ln p_population, where the population is known from public people who were in neither side.
The density of the population matters: without it, the score only says how common a person is.

*Reference*: van Breugel et al. 2023, "Membership inference attacks against synthetic data through overfitting
detection" (DOMIAS), equation 4. Deviation: densities of mixed columns (``densities``) instead of a flow or a
Gaussian kernel on numbers.
"""

from dataclasses import dataclass, field
from typing import final

import numpy as np

from privet.arguments import fraction, whole
from privet.attacks.synthetic.densities import Density, NeighborDensity
from privet.attacks.synthetic.game import draw_game, require_rows
from privet.attacks.synthetic.nearest_records import find_closest
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.published_tables import PublishedTable
from privet.recoveries import Recoveries
from privet.scores import Scores
from privet.views import Adversary

__all__ = ["DensityRatio", "name_members"]

MEMBERSHIP = Adversary(
    sees="the synthetic table",
    knows="the rows of people, and public people of the same population",
    wants="who was in the original",
)


@final
@dataclass(frozen=True)
class DensityRatio:
    """Scores people by how much denser the synthetic table is at them than the population.

    *Adversary*: sees the synthetic table; knows the rows of people, and public people of the same population;
    wants to know who was in the original.
    """

    density: Density = field(default_factory=NeighborDensity)
    targets: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        whole("seed", self.seed, least=0)

    @property
    def name(self) -> str:
        """What a report calls it."""
        return f"density ratio by {self.density.words}"

    def run(
        self,
        synthetic: PublishedTable,
        original: PublishedTable,
        control: PublishedTable,
        reference: PublishedTable | None = None,
    ) -> Scores:
        """Score people of both sides; higher = more likely in the original.

        ``reference`` are public people who were in neither side. Without it half of the control, drawn at
        random, is the reference and the other half is judged.
        """
        if reference is None:
            if len(control) < 4:
                raise InvalidArgument(
                    f"'control' must have at least 4 rows without a reference, got {len(control)}. Give "
                    f"more, or public people as 'reference'."
                )
            order = np.random.default_rng(self.seed).permutation(len(control))
            reference = control.take(order[: len(control) // 2])
            control = control.take(order[len(control) // 2 :])
        require_rows("reference", reference)
        game = draw_game(synthetic, original, control, targets=self.targets, seed=self.seed)
        stacked = game.synthetic.below(game.people).below(reference)
        rows, people = len(game.synthetic), len(game)
        places = np.split(np.arange(len(stacked)), [rows, rows + people])
        published, judged, public = (stacked.take(part) for part in places)
        values = self.density.log_ratio(judged, published, public)
        return Scores(values, game.members, self.name)


def name_members(scores: Scores, share: float = 0.1, adversary: Adversary = MEMBERSHIP) -> Recoveries:
    """The attack names the people that it is surest of as members: a hit is to be named.

    The share is fixed beforehand, and is of all who are judged. Whether somebody is named does not depend on
    the coins, so the ceiling of a claim holds.
    """
    fraction("share", share)
    return Recoveries(
        scores.attack,
        adversary,
        f"named among the {share:.0%} that were most likely in the original",
        find_closest(-scores.values, share),
        scores.members,
        confidence=np.abs(scores.values - np.median(scores.values)),
    )


check_public_calls(__name__)
