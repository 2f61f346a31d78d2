"""How close a black-box audit comes to the proof: DP-SGD on 1,000 digits of MNIST at ε = 10, and the same with half its noise.

    python bench/audit/mnist_worst_case.py             # 800 runs, some minutes on two cores; runs that are done are kept
    python bench/audit/mnist_worst_case.py --runs 50   # a quick look

*Set-up* (Annamalai & De Cristofaro 2024, "Nearly Tight Black-Box Auditing of Differentially Private Machine Learning"). The
proof of DP-SGD holds for any initial weights, so the adversary chooses them: a model that was trained, without privacy, on other
digits, until the gradients of the private ones are small. Then only the canary pulls, always in about the same direction.
The canary is a blank image with the label that the initial model finds least likely. Half of the runs have it beside 999 digits, half
have the digits alone: 100 steps on the full batch, with clip 1. The adversary sees the final model's loss on the canary, and
nothing else.

*Deviations*. The paper's model is a small CNN; here it is a perceptron with 32 hidden units, because 800 runs of a CNN take
hours on two cores. The steps are those of ``privet.training.PrivateLoop`` itself: what is audited is what people run.

*What is claimed*: ε at δ = 1e-5, by Privet's accountant. *What is measured*: a lower bound at 95 % confidence by
``privet.auditing``. A run with half its noise claims the same ε, and must be caught. On the full batch the steps are one Gaussian
mechanism, so the shape that ``GaussianFit`` assumes is the true one. ``ClopperPearson`` assumes none, and 400 runs cannot show
an ε above its ceiling.
"""

import argparse
import hashlib
import inspect
import multiprocessing
import sys
import time
from multiprocessing.pool import Pool
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from privet.accounting import account
from privet.bounds import Finding
from privet.scores import Scores
from privet.training import Flat, PoissonSampling, PrivateLoop, TrainingPlan
from privet.training.sampling.examples import Examples

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1].parent / "shared" / "data" / "mnist.npz"
RECORDS, STEPS, DELTA, EPSILON, HIDDEN = 1000, 100, 1e-5, 10.0, 32
RATE = 0.5  # of the mean gradient; between 0.01 and 2 the distance of the scores hardly changes
ELSEWHERE = 30_000  # digits from here on are the adversary's own


class Places(Examples):
    """999 digits and the canary's place, where it stands or not: the number of places, and so the divisor, is the same."""

    def __init__(self, inputs: Tensor, labels: Tensor, *, with_canary: bool) -> None:
        self._inputs, self._labels = inputs, labels
        self._last = len(inputs) if with_canary else len(inputs) - 1

    def __len__(self) -> int:
        return len(self._inputs)

    def take(self, indices: Tensor) -> tuple[Tensor, ...]:
        indices = indices[indices < self._last]
        return self._inputs[indices], self._labels[indices]


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(784, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))


def digits() -> tuple[Tensor, Tensor]:
    with np.load(DATA) as found:
        inputs = torch.from_numpy(found["x_train"]).float().flatten(1) / 255
        return inputs, torch.from_numpy(found["y_train"]).long()


def worst_case(inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Weights that fit digits of the adversary's own; plain training, seeded, without touching torch's global generator."""
    generator = torch.Generator().manual_seed(0)
    found = model()
    with torch.no_grad():
        for parameter in found.parameters():
            scale = 1 / parameter.shape[-1] ** 0.5 if parameter.dim() > 1 else 0.0
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))
    optimizer = torch.optim.Adam(found.parameters(), 1e-3)
    for _ in range(20):
        for batch in torch.randperm(len(inputs), generator=generator).split(128):
            optimizer.zero_grad()
            F.cross_entropy(found(inputs[batch]), labels[batch]).backward()
            optimizer.step()
    return found.state_dict()


def canary(weights: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """A blank image, and the label that the initial model finds least likely."""
    start = model()
    start.load_state_dict(weights)
    blank = torch.zeros(1, 784)
    with torch.no_grad():
        return blank, start(blank).argmin(1)


def score(
    plan: TrainingPlan, weights: dict[str, Tensor], rows: Examples, target: tuple[Tensor, Tensor]
) -> float:
    """One private run, and how little the final model minds the canary."""
    trained = model()
    trained.load_state_dict(weights)
    loop = PrivateLoop(trained, torch.optim.SGD(trained.parameters(), RATE), rows, plan, Flat(1.0))
    loss = nn.CrossEntropyLoss()
    for lot in loop.lots():
        loop.step(lot, loss)
    with torch.no_grad():
        return -float(F.cross_entropy(trained(target[0]).double(), target[1]))


def plans() -> tuple[TrainingPlan, TrainingPlan]:
    """The plan that is claimed, and the one that a bug would run: half of the noise."""
    claimed = TrainingPlan.calibrated(
        epsilon=EPSILON,
        delta=DELTA,
        population=RECORDS,
        sampling=PoissonSampling(1.0),
        clip_bound=1.0,
        steps=STEPS,
    )
    noise = claimed.noise_multiplier / 2
    return claimed, TrainingPlan(
        population=RECORDS, sampling=PoissonSampling(1.0), steps=STEPS, noise_multiplier=noise, clip_bound=1.0
    )


def work(job: tuple[TrainingPlan, dict[str, Tensor], Tensor, Tensor, bool, int]) -> list[float]:
    torch.set_num_threads(1)
    plan, weights, inputs, labels, with_canary, runs = job
    rows = Places(inputs, labels, with_canary=with_canary)
    return [score(plan, weights, rows, (inputs[-1:], labels[-1:])) for _ in range(runs)]


class Cache:
    """Scores that were computed before, in this very set-up; runs are added, never replaced."""

    def __init__(self, folder: Path) -> None:
        parts = [
            inspect.getsource(part) for part in (Places, model, digits, worst_case, canary, score, plans)
        ]
        constants = (RECORDS, STEPS, DELTA, EPSILON, HIDDEN, RATE, ELSEWHERE, DATA.stat().st_size)
        content = hashlib.sha256(repr((parts, constants)).encode())
        self._folder = folder / content.hexdigest()[:16]
        self._folder.mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> list[float]:
        path = self._folder / f"{name}.npy"
        return list(np.load(path)) if path.exists() else []

    def write(self, name: str, values: list[float]) -> None:
        np.save(self._folder / f"{name}.npy", np.array(values))


def measured(
    plan: TrainingPlan,
    name: str,
    runs: int,
    setting: tuple[dict[str, Tensor], Tensor, Tensor],
    cache: Cache,
    pool: Pool,
) -> Scores:
    sides = []
    for with_canary in (True, False):
        key = f"{name}-{'with' if with_canary else 'without'}"
        values = cache.read(key)[:runs]
        jobs = []
        left = runs - len(values)
        while left > 0:
            jobs.append((plan, *setting, with_canary, min(5, left)))
            left -= 5
        for done in pool.imap_unordered(work, jobs):
            values += done
            cache.write(key, values)
            print(f"\r{key}: {len(values)}/{runs}", end="", file=sys.stderr, flush=True)
        sides.append(np.array(values))
    return Scores.of(*sides, attack="loss of the final model")


def shown(name: str, finding: Finding, scores: Scores) -> None:
    gap = scores.of_members.mean() - scores.of_others.mean()
    spread = np.sqrt((scores.of_members.var(ddof=1) + scores.of_others.var(ddof=1)) / 2)
    claim = finding.claimed.value if finding.claimed is not None else float("nan")
    print(
        f"| {name} | {len(scores)} | {gap / spread:.2f} | {claim:.2f} | {finding.measured.value:.2f} | "
        f"{finding.ceiling:.2f} | {finding.verdict} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200, help="with the canary, and as many without")
    parser.add_argument(
        "--cache", type=Path, default=Path.home() / ".cache" / "privet-bench" / "mnist-worst-case"
    )
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    from privet.auditing import ClopperPearson, GaussianFit

    began = time.monotonic()
    torch.set_num_threads(1)
    inputs, labels = digits()
    weights = worst_case(inputs[ELSEWHERE:], labels[ELSEWHERE:])
    blank, label = canary(weights)
    private = torch.cat((inputs[: RECORDS - 1], blank)), torch.cat((labels[: RECORDS - 1], label))
    claimed, halved = plans()
    claim = account(claimed.ledger(STEPS))
    cache = Cache(asked.cache)
    print(f"{claimed}; δ = {DELTA:g}; initial weights and canary of the adversary\n")
    print("| run | models | distance of the scores | ε claimed | ε measured, at least | ceiling | verdict |")
    print("|---|---|---|---|---|---|---|")
    with multiprocessing.get_context("spawn").Pool(asked.processes) as pool:
        for name, plan in (("as claimed", claimed), ("half the noise", halved)):
            scores = measured(plan, name.replace(" ", "-"), asked.runs, (weights, *private), cache, pool)
            print("\r", end="", file=sys.stderr)
            for method in (GaussianFit(confidence=0.95), ClopperPearson(confidence=0.95)):
                finding = method.test(scores, claim, delta=DELTA)
                shown(f"{name}, {type(method).__name__}", finding, scores)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
