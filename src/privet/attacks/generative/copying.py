"""Copies in what a generator draws: which training pictures come out again, beside pictures left out.

*The criterion* is relative. A sample is near a plain picture anyway, and near a rich one never; so its
distance to a target is divided by its mean distance to its k nearest *public* pictures, which nobody trained
on. A target is hit if some sample is nearer than ``ratio`` times that. Members and targets that the coin left
out are judged alike, so the share of hits among the latter is what chance gives.

*A broken sampler shows nothing*, and so seems private. So the samples must look real before a low count is
believed: their median distance to the nearest public picture may be at most ``realistic`` times that of real
pictures left out. Otherwise the call is refused.

*Reference*: Carlini et al. 2023, "Extracting training data from diffusion models", section 4.1 (relative
distance to the nearest neighbours) and section 4.2. Deviations: public pictures as neighbours, so that the
control is fair; the coin; the check of the samples.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import positive, whole
from privet.attacks.generative.near_copies import find_cliques, measure_distances, pick_medoids
from privet.errors import InvalidArgument
from privet.exhibits import Exhibit, Shown
from privet.recoveries import Recoveries
from privet.scores import Bits
from privet.views import Adversary, Numbers, Rows

__all__ = ["CopySearch", "FoundCopies"]

_ADVERSARY = Adversary(
    sees="as many pictures as the generator draws",
    knows="public pictures of the same kind",
    wants="pictures that it was trained on",
)
_SHOWN = 8


@final
@dataclass(frozen=True, eq=False)
class FoundCopies:
    """What was found: ``recoveries`` of the targets; ``candidates``, the samples in the middle of cliques,
    the largest clique first, with the sizes of their cliques and whether each is a copy of a member.
    """

    recoveries: Recoveries
    candidates: NDArray[np.intp] = field(repr=False)
    clique_sizes: NDArray[np.int64] = field(repr=False)
    verified: Bits = field(repr=False)

    def precision(self, count: int) -> float:
        """The share of copies among the first ``count`` candidates; 0 where there are none."""
        chosen = self.verified[: whole("count", count)]
        return float(chosen.mean()) if len(chosen) else 0.0


@final
@dataclass(frozen=True)
class CopySearch:
    """Looks for targets among the samples of a generator.

    *Adversary*: sees samples; knows public pictures; wants pictures that the generator was trained on.

    ``ratio`` is the criterion, with ``neighbours`` public pictures; ``tile`` compares the worst tile;
    ``clique`` is the smallest clique of a candidate.

    *Reference*: Carlini et al. 2023; see this module.
    """

    ratio: float = 0.5
    neighbours: int = 20
    tile: int | None = None
    clique: int = 3
    realistic: float = 1.5

    name = "copies in samples"
    adversary = _ADVERSARY

    def __post_init__(self) -> None:
        positive("ratio", self.ratio), positive("realistic", self.realistic)
        whole("neighbours", self.neighbours), whole("clique", self.clique, least=2)

    def run(
        self,
        samples: Rows,
        targets: Rows,
        members: Bits,
        *,
        public: Rows,
        draw: Callable[[Any], Shown] | None = None,
        shown: int = _SHOWN,
    ) -> FoundCopies:
        """Compare every sample with every target; ``members`` says which targets were trained on.

        ``public`` are pictures of the same kind that are neither trained on nor targets. With ``draw``, which
        turns a picture into something to be shown, the nearest members become exhibits.
        """
        members = np.asarray(members, dtype=np.bool_)
        if members.shape != (len(targets),):
            raise InvalidArgument(
                f"'members' must say for each of {len(targets)} targets whether it was trained on, got an "
                f"array of shape {members.shape}. Give one coin for each target."
            )
        if len(public) < self.neighbours + 1:
            raise InvalidArgument(
                f"'public' must hold more than {self.neighbours} pictures, got {len(public)}. Give more, or "
                f"a smaller 'neighbours'."
            )
        beside = np.sort(measure_distances(samples, public, tile=self.tile), axis=1)
        self._require_realistic(beside[:, 0], targets[~members], public)
        scale = np.maximum(beside[:, : self.neighbours].mean(axis=1), 1e-12)
        ratios = measure_distances(samples, targets, tile=self.tile) / scale[:, None]
        nearest, best = ratios.min(axis=0), ratios.argmin(axis=0)
        recoveries = Recoveries(
            self.name,
            self.adversary,
            f"a sample nearer than {self.ratio:g} of its distance to {self.neighbours} public pictures",
            nearest <= self.ratio,
            members,
            distances=nearest,
            confidence=np.abs(nearest - self.ratio),
        )
        if draw is not None:
            inside = np.flatnonzero(members)
            chosen = inside[np.argsort(nearest[inside], kind="stable")][: whole("shown", shown, least=0)]
            exhibits = [
                Exhibit(
                    truth=draw(targets[one]),
                    recovered=draw(samples[best[one]]),
                    caption=f"{'hit' if recoveries.hits[one] else 'miss'} at {nearest[one]:.2f}",
                    member=True,
                )
                for one in chosen.tolist()
            ]
            recoveries = replace(recoveries, exhibits=tuple(exhibits))
        candidates, sizes = self.find_candidates(samples, scale=float(np.median(scale)))
        copies = ratios[np.ix_(candidates, np.flatnonzero(members))]
        return FoundCopies(recoveries, candidates, sizes, (copies <= self.ratio).any(axis=1))

    def find_candidates(self, samples: Rows, *, scale: float) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Samples in the middle of cliques, and the sizes of the cliques. No training picture is needed.

        Samples of one clique are within ``ratio`` × ``scale`` of each other, where ``scale`` is the usual
        distance between a sample and public pictures.
        """
        gaps = measure_distances(samples, samples, tile=self.tile)
        cliques = find_cliques(gaps, within=self.ratio * scale, least=self.clique)
        return pick_medoids(gaps, cliques), np.array([len(clique) for clique in cliques], dtype=np.int64)

    def _require_realistic(self, nearest: Numbers, held_out: Rows, public: Rows) -> None:
        usual = float(np.median(measure_distances(held_out, public, tile=self.tile).min(axis=1)))
        found = float(np.median(nearest))
        if found > self.realistic * usual:
            raise InvalidArgument(
                f"'samples' must look like real pictures, got samples whose median distance to public "
                f"pictures is above {self.realistic:g} times that of real ones. A broken sampler copies "
                f"nothing and proves nothing: train or sample longer."
            )
