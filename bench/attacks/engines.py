"""Shadow models by Privet's engines, beside the loops that peers use: milliseconds for each model and epoch.

Every contestant trains the same 16 models on the same records in the same batches, round after round in turn; a ratio is the
median of the ratios within a round, so that a load which comes and goes falls on all alike. Contestants that use torch have
the number of threads that torch takes by itself. Beside the time stands the work, in milliseconds of processor time over all
threads and processes: on a busy machine it is the steadier of the two.
"""

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from data import DATA, baskets, digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from privet.attacks.shadows import Halves, Stacked, TorchRecipe, conduct
from privet.attacks.shadows.engine import Job
from privet.attacks.shadows.splits import model_seed
from privet.attacks.shadows.stacking import train_stack
from privet.attacks.shadows.torch_recipe import initialize_model, to_tensor, train_model
from privet.scores import Records

MODELS = 16


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(600, 128), nn.ReLU(), nn.Linear(128, 100))


class Opaque(nn.Module):
    """The same network, not seen to be a chain: it is stacked by torch.func."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


class Setting:
    """One recipe on some records, and the ways to train its models."""

    def __init__(self, recipe: TorchRecipe, records: Records) -> None:
        self.recipe, self.records = recipe, records
        self.members = Halves().members(MODELS, len(records), 0)
        self.seeds = [model_seed(0, model) for model in range(MODELS)]
        self.rows = [np.flatnonzero(bits) for bits in self.members]
        self.inputs = to_tensor(recipe.model(), records.inputs)
        self.labels = torch.as_tensor(records.known_labels)

    def made(self, recipe: TorchRecipe) -> list:
        return [initialize_model(recipe, seed) for seed in self.seeds]

    def sequential(self) -> None:
        for rows, seed in zip(self.rows, self.seeds, strict=True):
            train_model(
                self.recipe, initialize_model(self.recipe, seed), self.inputs, self.labels, rows, seed
            )

    def loader(self) -> None:
        """As peers do: a data set, a loader that puts records together one by one, torch's optimiser."""
        recipe = self.recipe
        for rows, seed in zip(self.rows, self.seeds, strict=True):
            module = initialize_model(recipe, seed).module
            data = TensorDataset(self.inputs[rows], self.labels[rows])
            batches = DataLoader(data, batch_size=recipe.batch_size, shuffle=True)
            optimizer = torch.optim.SGD(module.parameters(), lr=recipe.learning_rate, momentum=0.9)
            for _ in range(recipe.epochs):
                for inputs, labels in batches:
                    optimizer.zero_grad()
                    F.cross_entropy(module(inputs), labels).backward()
                    optimizer.step()

    def functional(self) -> None:
        model = Opaque if self.recipe.model is mlp else self.recipe.model
        recipe = TorchRecipe(model=model, epochs=self.recipe.epochs, batch_size=self.recipe.batch_size)
        train_stack(recipe, self.made(recipe), self.inputs, self.labels, self.rows, self.seeds)

    def job(self) -> Job:
        records = self.records
        return Job(
            recipe=self.recipe, inputs=records.inputs, labels=records.known_labels, members=self.members,
            seeds=tuple(self.seeds), query_inputs=(records.inputs[:1],),
        )  # fmt: skip

    def stacked(self) -> None:
        """The whole engine, threads and all, asked about one record, so that training is what is timed."""
        job = self.job()
        one = Job(**{**vars(job), "shown": ()})
        list(Stacked().run(one, range(MODELS), lambda _done: None))


_SETTING: list[Setting] = []


def start(name: str, folder: Path, count: int, epochs: int) -> None:
    torch.set_num_threads(1)
    _SETTING.append(setting(name, folder, count, epochs))
    one(0)


def one(model: int) -> float:
    """Seconds of processor time."""
    began = time.process_time()
    here = _SETTING[0]
    seed = here.seeds[model]
    train_model(
        here.recipe, initialize_model(here.recipe, seed), here.inputs, here.labels, here.rows[model], seed
    )
    return time.process_time() - began


def setting(name: str, folder: Path, count: int, epochs: int) -> Setting:
    records = baskets(folder, count) if name == "mlp" else digits(folder, count)
    return Setting(TorchRecipe(model=mlp if name == "mlp" else cnn, epochs=epochs), records)


def by_jax(here: Setting) -> Callable[[], None] | None:
    """The MLP by JAX: one compiled step, vmapped over the models."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None
    width, rate = here.recipe.batch_size, here.recipe.learning_rate
    inputs, labels = jnp.asarray(here.records.inputs), jnp.asarray(here.records.known_labels)

    def loss(weights: list, rows: object) -> object:
        hidden = jax.nn.relu(inputs[rows] @ weights[0] + weights[1])
        scores = jax.nn.log_softmax(hidden @ weights[2] + weights[3])
        return -jnp.take_along_axis(scores, labels[rows][:, None], axis=1).mean()

    def move(weights: list, speed: list, rows: object) -> tuple[list, list]:
        slope = jax.grad(loss)(weights, rows)
        speed = [0.9 * v + g for v, g in zip(speed, slope, strict=True)]
        return [w - rate * v for w, v in zip(weights, speed, strict=True)], speed

    step = jax.jit(jax.vmap(move), donate_argnums=(0, 1))

    def run() -> None:
        made = [list(initialize_model(here.recipe, seed).module.parameters()) for seed in here.seeds]
        stacked = [jnp.stack([jnp.asarray(m[i].detach().numpy().T) for m in made]) for i in range(4)]
        speed = [jnp.zeros_like(w) for w in stacked]
        random = np.random.default_rng(0)
        for _ in range(here.recipe.epochs):
            order = np.stack([random.permutation(rows) for rows in here.rows])
            for at in range(0, order.shape[1], width):
                stacked, speed = step(stacked, speed, order[:, at : at + width])
        jax.block_until_ready(stacked)

    run()  # compiled before it is timed
    return run


def compare(name: str, folder: Path, count: int, epochs: int, rounds: int) -> None:
    here = setting(name, folder, count, epochs)
    with multiprocessing.get_context("spawn").Pool(2, start, (name, folder, count, epochs)) as pool:
        pool.map(one, range(4))  # both have loaded torch before anything is timed
        ways: dict[str, Callable[[], list[float] | None]] = {
            "sequential over tensors": here.sequential,
            "sequential, DataLoader": here.loader,
            "two processes": lambda: pool.map(one, range(MODELS), chunksize=1),
            "torch.func, 16 together": here.functional,
        }
        jax = by_jax(here) if name == "mlp" else None
        if jax is not None:
            ways["JAX vmap, 16 together"] = jax
        if name == "mlp":
            ways["Privet, stacked chains"] = here.stacked
        times: dict[str, list[float]] = {way: [] for way in ways}
        work: dict[str, list[float]] = {way: [] for way in ways}
        each = 1e3 / MODELS / epochs
        for _ in range(rounds):
            for way, run in ways.items():
                began, worked = time.perf_counter(), time.process_time()
                elsewhere = run()
                times[way].append((time.perf_counter() - began) * each)
                away = sum(elsewhere) if isinstance(elsewhere, list) else 0.0
                work[way].append((time.process_time() - worked + away) * each)
    last = list(ways)[-1]
    print(
        f"\n{name}: {len(here.records)} records, halves, {MODELS} models, batch 64, load {os.getloadavg()[0]:.1f}"
    )
    print(
        f"{'':28}{'best ms':>10}{'median ms':>10}{'ratio':>8}{'work ms':>10}{'ratio':>8}   (ratios: over {last})"
    )
    for way, taken in times.items():
        ratio = statistics.median(t / mine for t, mine in zip(taken, times[last], strict=True))
        works = statistics.median(t / mine for t, mine in zip(work[way], work[last], strict=True))
        print(
            f"{way:28}{min(taken):10.1f}{statistics.median(taken):10.1f}{ratio:8.2f}"
            f"{statistics.median(work[way]):10.1f}{works:8.2f}"
        )


def study(name: str, folder: Path, count: int, epochs: int, models: int) -> None:
    here = setting(name, folder, count, epochs)
    found = conduct(here.recipe, here.records, models, seed=0)
    print(f"{name}, the whole study with signals: {found}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", type=Path, default=DATA)
    asked = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {os.cpu_count()} cores")
    rounds = 3 if asked.quick else 9
    compare("mlp", asked.data, 4096, 2, rounds)
    compare("cnn", asked.data, 1024, 1, rounds if asked.quick else 5)
    models = 16 if asked.quick else 64
    study("mlp", asked.data, 4096, 10, models)
    study("cnn", asked.data, 1024, 5, models)


if __name__ == "__main__":
    main()
