"""Privet's attacks beside the formulas of its peers, on the same signals of the same models.

The formulas are written out here from LeakPro, ML Privacy Meter and Carlini et al.'s code, without their loops: LiRA with one
deviation for all records and with one for each, online and offline; RMIA and BASE at temperatures 1 and 2; attack-P (a threshold
on the target's loss); a regression of φ on the record (quantile). Where a peer counts dominated records, the ratio itself is
taken, which is never below the count.

For every set of data 32 references (16 pairs of halves) and 16 targets are trained once, with other seeds; a coin for each
record and target. Nothing is chosen on targets. Target t with K pairs takes the pairs t K, t K + 1, … modulo 16, so that
references vary too. Differences are paired over targets, with Student's 95 % intervals. "behind" is a difference whose interval
lies below 0.

Formulas and rules were developed on the first six sets. The last three (HELD_OUT) were looked at afterwards, once.
"""

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from data import DATA, adults, baskets, digits, locations, pictures
from scipy import stats
from scipy.special import expit, logsumexp
from torch import nn

from privet.attacks import (
    BASE,
    RMIA,
    BaVarIA,
    BoostedQuantiles,
    Ensemble,
    LiRA,
    Loss,
    OfflineBASE,
    OfflineBaVarIA,
    OfflineLiRA,
    OfflineRMIA,
    PerRecord,
    Probabilities,
)
from privet.attacks.membership import ensemble, likelihood_ratio, lira
from privet.attacks.membership.signals import TargetSignals
from privet.attacks.shadows import SGD, Coins, TorchRecipe, conduct
from privet.scores import Records, References

PAIRS, TARGETS, BUDGETS = 16, 16, (1, 2, 4, 16)
FIGURES = ("AUC", "TPR at 1 %")
ROUNDING = 5e-5  # half of the last digit shown; peers add 1e-6 to confidences, which moves single records
HELD_OUT = ("baskets50", "mnist-mlp", "cifar10-mlp")
Formula = Callable[["Case"], np.ndarray]


@dataclass(frozen=True)
class Case:
    """One target with its references, at temperatures 1 and 2: φ of the target, φ of models × records, and the members."""

    phi: dict[int, np.ndarray]
    of_models: dict[int, np.ndarray]
    members: np.ndarray
    references: References
    target: TargetSignals


def deviations(case: Case, among: np.ndarray, each: bool) -> tuple[np.ndarray, np.ndarray]:
    values = np.where(among, case.of_models[1], np.nan)
    return np.nanmean(values, axis=0), (np.nanstd(values, axis=0) if each else np.nanstd(values)) + 1e-30


def peer_lira(*, each: bool, online: bool) -> Formula:
    def score(case: Case) -> np.ndarray:
        mean, spread = deviations(case, ~case.members, each)
        if not online:
            return (case.phi[1] - mean) / spread  # the order of −ln(1 − Φ), without its ties at 1
        mean_in, spread_in = deviations(case, case.members, each)
        return stats.norm.logpdf(case.phi[1], mean_in, spread_in) - stats.norm.logpdf(
            case.phi[1], mean, spread
        )

    return score


def peer_rmia(*, temperature: int, online: bool, a: float = 0.33) -> Formula:
    def score(case: Case) -> np.ndarray:
        confidences = expit(case.of_models[temperature])
        if online:
            mean = confidences.mean(axis=0)
        else:
            left_out = np.nanmean(np.where(case.members, np.nan, confidences), axis=0)
            mean = 0.5 * ((1 + a) * left_out + (1 - a))
        return expit(case.phi[temperature]) / (mean + 1e-6)

    return score


def peer_base(*, temperature: int, online: bool, scale: float = 0.33) -> Formula:
    def score(case: Case) -> np.ndarray:
        logs = -np.logaddexp(0, -case.of_models[temperature])
        own = -np.logaddexp(0, -case.phi[temperature])
        if online:
            return own - (logsumexp(logs, axis=0) - math.log(len(logs)))
        threshold = logsumexp(np.where(case.members, -np.inf, logs), axis=0) - np.log(
            (~case.members).sum(axis=0)
        )
        return own - scale * threshold

    return score


# name → (Privet's attack, the peers' formulas of that name). A deviation for each record needs two models on each side.
NAMES: dict[str, tuple[Formula, dict[str, Formula]]] = {
    "LiRA": (
        lambda case: LiRA(case.references).judge(case.target),
        {
            "pooled": peer_lira(each=False, online=True),
            "per record": peer_lira(each=True, online=True),
        },
    ),
    "LiRA, PerRecord": (
        lambda case: LiRA(case.references, PerRecord()).judge(case.target),
        {"per record": peer_lira(each=True, online=True)},
    ),
    "LiRA offline": (
        lambda case: OfflineLiRA(case.references).judge(case.target),
        {
            "pooled": peer_lira(each=False, online=False),
            "per record": peer_lira(each=True, online=False),
        },
    ),
    "LiRA offline, PerRecord": (
        lambda case: OfflineLiRA(case.references, PerRecord()).judge(case.target),
        {"per record": peer_lira(each=True, online=False)},
    ),
    "RMIA": (
        lambda case: RMIA(case.references).judge(case.target),
        {f"T = {t}": peer_rmia(temperature=t, online=True) for t in (1, 2)},
    ),
    "RMIA offline": (
        lambda case: OfflineRMIA(case.references).judge(case.target),
        {f"T = {t}": peer_rmia(temperature=t, online=False) for t in (1, 2)},
    ),
    "BASE": (
        lambda case: BASE(case.references).judge(case.target),
        {f"T = {t}": peer_base(temperature=t, online=True) for t in (1, 2)},
    ),
    "BASE offline": (
        lambda case: OfflineBASE(case.references).judge(case.target),
        {f"T = {t}": peer_base(temperature=t, online=False) for t in (1, 2)},
    ),
    "attack-P": (
        lambda case: Loss().score(*_as_binary(case.phi[1])),
        {"loss": lambda case: -np.logaddexp(0, -case.phi[1])},
    ),
    "BaVarIA": (lambda case: BaVarIA(case.references).judge(case.target), {}),
    "BaVarIA offline": (lambda case: OfflineBaVarIA(case.references).judge(case.target), {}),
}
DEFAULT = "RMIA + BaVarIA"


def _as_binary(phi: np.ndarray) -> tuple[Probabilities, Records]:
    """A view that shows φ alone, as confidences of two classes."""
    view = Probabilities(lambda rows: np.stack([expit(rows[:, 0]), expit(-rows[:, 0])], axis=1))
    return view, Records(phi[:, None], np.zeros(len(phi), dtype=np.int64))


def mlp(inputs: int, classes: int) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, classes))


def cnn(channels: int, flat: int) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(
        nn.Conv2d(channels, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(flat, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def recipe(model: Callable[[], nn.Module], epochs: int, rate: float, decay: float = 0.0) -> TorchRecipe:
    return TorchRecipe(
        model=model, epochs=epochs, learning_rate=rate, optimizer=SGD(momentum=0.9, weight_decay=decay)
    )


def datasets(folder: Path) -> dict[str, tuple[Callable[[], Records], TorchRecipe]]:
    return {
        "location30": (lambda: locations(folder, 4000), recipe(mlp(446, 30), 30, 0.1)),
        "baskets100": (lambda: baskets(folder, 4096, 100), recipe(mlp(600, 100), 20, 0.1, 1e-4)),
        "baskets20": (lambda: baskets(folder, 4096, 20), recipe(mlp(600, 20), 20, 0.1, 1e-4)),
        "mnist": (lambda: digits(folder, 4000), recipe(cnn(1, 400), 20, 0.05)),
        "cifar10": (lambda: pictures(folder, 4000), recipe(cnn(3, 576), 20, 0.05)),
        "adult": (lambda: adults(folder, 4000), recipe(mlp(adults(folder, 10).inputs.shape[1], 2), 60, 0.1)),
        "baskets50": (lambda: baskets(folder, 4096, 50, seed=1), recipe(mlp(600, 50), 20, 0.1, 1e-4)),
        "mnist-mlp": (lambda: flat(digits(folder, 2000, seed=1)), recipe(mlp(784, 10), 30, 0.05)),
        "cifar10-mlp": (lambda: flat(pictures(folder, 3000, seed=1)), recipe(mlp(3072, 10), 30, 0.02)),
    }


def flat(records: Records) -> Records:
    return Records(records.inputs.reshape(len(records), -1), records.labels)


def rates(scores: np.ndarray, coin: np.ndarray) -> tuple[float, float]:
    """The AUC, and the TPR at the threshold that 1 % of the others pass."""
    members, others = int(coin.sum()), int((~coin).sum())
    area = (stats.rankdata(scores)[coin].sum() - members * (members + 1) / 2) / (members * others)
    threshold = np.sort(scores[~coin])[::-1][int(0.01 * others)]
    return float(area), float((scores[coin] > threshold).mean())


def remember(choose: Callable[..., int | None]) -> Callable[..., int | None]:
    """The same choice without its work, for references that were seen before: targets share them, and have no part in it."""
    kept: dict[tuple, tuple[References, int | None]] = {}

    def again(references: References, settings: Callable, **how: int) -> int | None:
        inside = tuple(str(cell.cell_contents) for cell in settings.__closure__ or ())
        key = (id(references), settings.__module__, settings.__qualname__, inside, *how.items())
        if key not in kept:
            kept[key] = references, choose(references, settings, **how)
        return kept[key][1]

    return again


for module in (likelihood_ratio, lira, ensemble):
    module.choose_setting = remember(module.choose_setting)


def pick(references: References, targets: References, target: int, pairs: int, seen: dict) -> Case:
    chosen = tuple(sorted((target * pairs + step) % PAIRS for step in range(pairs)))
    if chosen not in seen:
        models = np.array([model for pair in chosen for model in (2 * pair, 2 * pair + 1)])
        seen[chosen] = references.pick_models(models)
    known = seen[chosen]
    assert known.softened is not None
    assert targets.softened is not None
    mine = TargetSignals(targets.signals[target], targets.softened[:, target])
    return Case(
        phi={1: mine.phi[0], 2: targets.softened[0, target, 0]},
        of_models={1: known.signals[:, 0], 2: known.softened[0, :, 0]},
        members=known.members,
        references=known,
        target=mine,
    )


def table(references: References, targets: References, pairs: int) -> dict[str, np.ndarray]:
    """Every formula → targets × figures."""
    formulas: dict[str, Formula] = {DEFAULT: lambda case: Ensemble(case.references).judge(case.target)}
    for name, (own, peers) in NAMES.items():
        formulas[name] = own
        formulas |= {
            f"{name} | {peer}": formula
            for peer, formula in peers.items()
            if pairs > 1 or peer != "per record"
        }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in formulas}
    seen: dict[tuple[int, ...], References] = {}
    for target in range(TARGETS):
        case = pick(references, targets, target, pairs, seen)
        for name, formula in formulas.items():
            found[name].append(rates(formula(case), targets.members[target]))
    return {name: np.array(rows) for name, rows in found.items()}


def half_width(values: np.ndarray) -> np.ndarray:
    width: np.ndarray = (
        stats.t.ppf(0.975, len(values) - 1) * values.std(axis=0, ddof=1) / math.sqrt(len(values))
    )
    return width


def compare(found: dict[str, np.ndarray], cell: str) -> list[dict]:
    """Privet's attack of a name beside each peer of that name, and the default beside the best of all."""
    rows = []
    for key, theirs in found.items():
        name, _, peer = key.partition(" | ")
        if peer:
            rows += [row_of(cell, place, name, peer, found[name], theirs) for place in (0, 1)]
    if DEFAULT in found:
        online = [key for key in found if "offline" not in key]
        for place in (0, 1):
            best = max(online, key=lambda key, place=place: found[key][:, place].mean())
            rows.append(row_of(cell, place, "default", best, found[DEFAULT], found[best]))
    return rows


def row_of(cell: str, place: int, name: str, peer: str, own: np.ndarray, theirs: np.ndarray) -> dict:
    difference = own[:, place] - theirs[:, place]
    return {
        "cell": cell,
        "figure": FIGURES[place],
        "name": name,
        "peer": peer,
        "own": own[:, place].mean(),
        "theirs": theirs[:, place].mean(),
        "difference": difference.mean(),
        "wide": float(half_width(difference)),
    }


def peer_quantile(
    rows: np.ndarray, phi: np.ndarray, seed: int
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Mean and deviation of φ given the record by a small network under the Gaussian likelihood, as Bertran et al. and LeakPro do."""
    torch.manual_seed(seed)
    inputs = torch.from_numpy(rows)
    centre, unit = phi.mean(), phi.std()
    values = torch.from_numpy(((phi - centre) / unit).astype(np.float32))
    network = nn.Sequential(nn.Linear(rows.shape[1], 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, weight_decay=1e-4)
    for _ in range(20):
        for batch in torch.randperm(len(rows)).split(64):
            mean, log_spread = network(inputs[batch]).T
            loss = (log_spread + 0.5 * ((values[batch] - mean) / log_spread.exp()) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def score(other: np.ndarray, given: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            mean, log_spread = network(torch.from_numpy(other)).double().T.numpy()
        return ((given - centre) / unit - mean) / np.exp(log_spread)

    return score


def quantiles(records: Records, targets: References) -> dict[str, np.ndarray]:
    """Half of the non-members are public, the other half and all members are judged.

    Both regressions see pictures as means of 4 × 4 pixels: trees take half a minute for 3,072 columns.
    """
    rows = records.inputs
    if rows.ndim == 4:
        count, channels, height, width = rows.shape
        rows = rows.reshape(count, channels, height // 4, 4, width // 4, 4).mean(axis=(3, 5))
    rows = rows.reshape(len(records), -1).astype(np.float32)
    found: dict[str, list[tuple[float, float]]] = {"quantile": [], "quantile | network": []}
    marks = np.eye(int(records.known_labels.max()) + 1, dtype=np.float32)[records.known_labels]
    marked = np.concatenate([rows, marks], axis=1)
    for target in range(TARGETS):
        coin, phi = targets.members[target], targets.signals[target, 0]
        others = np.flatnonzero(~coin)
        public, judged = others[::2], np.concatenate([np.flatnonzero(coin), others[1::2]])
        theirs = peer_quantile(marked[public], phi[public], target)(marked[judged], phi[judged])
        own = BoostedQuantiles().learn(marked[public].astype(np.float64), phi[public])
        own = own(marked[judged].astype(np.float64), phi[judged])
        found["quantile"].append(rates(own, coin[judged]))
        found["quantile | network"].append(rates(theirs, coin[judged]))
    return {name: np.array(rows_) for name, rows_ in found.items()}


def study(records: Records, how: TorchRecipe, cache: Path) -> tuple[References, References]:
    references = conduct(how, records, 2 * PAIRS, seed=1, cache=cache, progress=False)
    targets = conduct(how, records, TARGETS, seed=2, split=Coins(), cache=cache, progress=False)
    print(f"  {references}\n  {targets}", flush=True)
    return references.references, targets.references


def show(rows: list[dict], found: dict[tuple[str, int], dict[str, np.ndarray]]) -> None:
    for (name, pairs), figures in found.items():
        how_many = f"{pairs} pair{'s' if pairs > 1 else ''}" if pairs else "no references"
        print(f"\n{name}, {how_many}: AUC, TPR at 1 % (half-width of 95 %)")
        for key, values in figures.items():
            (area, rate), (wide_area, wide_rate) = values.mean(axis=0), half_width(values)
            print(f"  {key:38}{area:8.4f} ({wide_area:.4f}){rate:9.4f} ({wide_rate:.4f})")
    for title, wanted in (("peers of the same name", False), ("default beside the best online", True)):
        chosen = [row for row in rows if (row["name"] == "default") == wanted]
        behind = [row for row in chosen if row["difference"] + row["wide"] < -ROUNDING]
        print(
            f"\n{title}: {len(chosen) - len(behind)} of {len(chosen)} cells are not behind beyond the interval"
        )
        for row in behind:
            print(
                f"  behind: {row['cell']:22}{row['figure']:12}{row['name']} beside {row['peer']}: {row['own']:.4f}, "
                f"{row['theirs']:.4f}; {row['difference']:+.4f} ± {row['wide']:.4f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--cache", type=Path, default=Path(__file__).parent / ".cache")
    parser.add_argument("--only", nargs="+", help="some of the sets of data")
    parser.add_argument(
        "--quantiles", action="store_true", help="also the regression of φ, which takes minutes"
    )
    parser.add_argument("--json", type=Path, help="a file for all rows")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", RuntimeWarning)  # means of nothing, where a record has no model on a side
    started, rows, found = time.monotonic(), [], {}
    for name, (load, how) in datasets(asked.data).items():
        if asked.only is not None and name not in asked.only:
            continue
        print(f"{name}{' (held out)' if name in HELD_OUT else ''}", flush=True)
        records = load()
        references, targets = study(records, how, asked.cache)
        for pairs in BUDGETS:
            found[name, pairs] = table(references, targets, pairs)
            rows += compare(found[name, pairs], f"{name}, {pairs}")
        if asked.quantiles:
            found[name, 0] = quantiles(records, targets)
            rows += compare(found[name, 0], f"{name}, no references")
    show(rows, found)
    if asked.json is not None:
        asked.json.write_text(json.dumps(rows, default=float))
    print(f"\n{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
