"""Every attack on a synthetic table, one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from privet.arguments import whole
from privet.attacks.synthetic.densities import NeighborDensity, TreeDensity
from privet.attacks.synthetic.density_ratio import MEMBERSHIP, DensityRatio, name_members
from privet.attacks.synthetic.game import draw_game
from privet.attacks.synthetic.inference import Inference
from privet.attacks.synthetic.linkability import Linkability
from privet.attacks.synthetic.nearest_records import ExactCopies, NearestDistances, NearestRecord
from privet.attacks.synthetic.shadow_generators import SHADOW_ADVERSARY, Generate, ShadowGenerators
from privet.attacks.synthetic.singling_out import PredicateCounts, SinglingOut
from privet.public_calls import check_public_calls
from privet.published_tables import PublishedTable
from privet.recoveries import Recoveries
from privet.scores import Scores

__all__ = ["SyntheticFindings", "attack_synthetic"]

_COLUMNS = 3  # of a multivariate predicate
_LEAST_FOR_DENSITY = 20  # people of the control, half of whom are the reference


@final
@dataclass(frozen=True, eq=False)
class SyntheticFindings:
    """What the attacks found in a synthetic table.

    ``recoveries`` has an entry for each attack, with people of the original in and people of the control out;
    membership attacks are there by the people that they name. ``scores`` are those of the membership attacks.
    ``distances`` compare synthetic rows with both sides. ``notes`` are sentences for a report: what the
    predicates matched, what was not run and why.
    """

    recoveries: tuple[Recoveries, ...]
    scores: tuple[Scores, ...]
    distances: NearestDistances
    predicates: tuple[PredicateCounts, ...]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"SyntheticFindings({len(self.recoveries)} attacks)"


def attack_synthetic(
    synthetic: object,
    original: object,
    control: object,
    *,
    secret: str | Sequence[str] | None = None,
    reference: object = None,
    generate: Generate | None = None,
    runs: int = 16,
    targets: int = 2000,
    seed: int = 0,
) -> SyntheticFindings:
    """Attack a table that somebody calls synthetic.

    The tables are frames, Arrow tables, mappings of arrays or ``PublishedTable``. ``original`` is what the
    generator was fitted on; ``control`` are people of the same population who were not in it, best as many.

    Singling out, linkability, nearest records, exact copies and the density ratio always run. ``secret``
    names the columns that are inferred from all others. ``reference`` are public people who are in neither
    side; without it half of the control serves. With ``generate``, the generator is run ``runs`` times on
    halves of the people (``ShadowGenerators``). ``targets`` is the most people of each side that distances
    are computed for.

    >>> import numpy as np
    >>> ages = np.random.default_rng(0).permutation(400)
    >>> rows = {"age": ages, "zip": (ages * 7919) % 101}
    >>> first = {name: values[:200] for name, values in rows.items()}
    >>> second = {name: values[200:] for name, values in rows.items()}
    >>> attack_synthetic(first, first, second, secret="zip").recoveries[3]
    Recoveries('inference of zip by nearest rows', 200 of 200 in the data hit, 17 of 200 left out)
    """
    whole("targets", targets, least=2)
    published, inside, outside = (PublishedTable.of(table) for table in (synthetic, original, control))
    names = draw_game(published, inside, outside, seed=seed).names  # refuses tables that cannot be compared
    tables = (published.select(names), inside.select(names), outside.select(names))
    notes: list[str] = []
    recoveries, predicates = _single_out(tables, seed)
    notes += [f"{each.attack}: {counts}." for each, counts in zip(recoveries, predicates, strict=True)]
    if len(names) > 1:
        recoveries.append(Linkability(targets=targets, seed=seed).run(*tables))
    else:
        notes.append("Linkability was not run: a table of one column has no two parts.")
    for name in [secret] if isinstance(secret, str) else secret or ():
        recoveries.append(Inference(name, targets=targets, seed=seed).run(*tables))
    if secret is None:
        notes.append("Inference was not run: no secret column was named.")
    near = NearestRecord(targets=targets, seed=seed).run_with_distances(*tables)
    recoveries += [near.recoveries, ExactCopies(seed).run(*tables)]
    notes.append(f"{near.distances}.")
    scores = []
    if reference is not None or len(outside) >= _LEAST_FOR_DENSITY:
        public = None if reference is None else PublishedTable.of(reference)
        for density in (NeighborDensity(), TreeDensity()):
            scores.append(DensityRatio(density, targets, seed).run(*tables, public))
            recoveries.append(name_members(scores[-1], adversary=MEMBERSHIP))
    else:
        notes.append(
            f"The density ratio was not run: it needs a reference, or {_LEAST_FOR_DENSITY} people of the "
            f"control."
        )
    if generate is not None:
        scores.append(ShadowGenerators(generate, runs, targets, seed=seed).run(*tables))
        recoveries.append(name_members(scores[-1], adversary=SHADOW_ADVERSARY))
    return SyntheticFindings(
        tuple(recoveries), tuple(scores), near.distances, tuple(predicates), tuple(notes)
    )


def _single_out(
    tables: tuple[PublishedTable, PublishedTable, PublishedTable], seed: int
) -> tuple[list[Recoveries], list[PredicateCounts]]:
    columns = len(tables[0].names)
    widths = [1] if columns == 1 else [1, min(_COLUMNS, columns)]
    found = [SinglingOut(width, seed=seed).run_with_counts(*tables) for width in widths]
    return [each.recoveries for each in found], [each.counts for each in found]


check_public_calls(__name__)
