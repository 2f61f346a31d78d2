"""Shadow models one after the other, in processes, and on Ray: seconds by the clock for the same models.

    python bench/attacks/parallel.py [--models 8] [--rounds 3]        needs the package ray for its row

A CNN on MNIST digits and a random forest on baskets, which cannot be stacked. The engines take turns; the figure is the median over
rounds, and the ratio to one after the other is the median of the ratios within a round. Start-up of processes counts; that of the
Ray cluster does not, because a cluster is there before the study.
"""

import argparse
import importlib.util
import statistics
import time
from contextlib import contextmanager, nullcontext

import torch
from data import DATA, baskets, digits
from engines import cnn
from sklearn.ensemble import RandomForestClassifier

from privet.attacks.shadows import Processes, Ray, ScikitRecipe, Sequential, TorchRecipe, conduct
from privet.private_folders import private_folder


@contextmanager
def ray_cluster():
    """One node with two cores, whose home is a private folder."""
    import ray

    with private_folder() as home:
        ray.init(
            num_cpus=2, include_dashboard=False, _temp_dir=str(home), object_store_memory=200 * 2**20,
            logging_level="error", log_to_driver=False,
        )  # fmt: skip
        try:
            yield
        finally:
            ray.shutdown()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    has_ray = importlib.util.find_spec("ray") is not None
    engines = {"one after the other": Sequential(), "two processes": Processes(2)} | (
        {"Ray, two cores": Ray()} if has_ray else {}
    )
    settings = {
        "CNN, 2,000 digits, 3 epochs": (TorchRecipe(model=cnn, epochs=3, batch_size=64), digits(DATA, 4000)),
        "random forest, 2,000 baskets": (ScikitRecipe(RandomForestClassifier(100)), baskets(DATA, 4000)),
    }
    print("| models | engine | seconds | ÷ one after the other |\n|---|---|---|---|")
    with ray_cluster() if has_ray else nullcontext():
        for title, (recipe, records) in settings.items():
            spent = {name: [] for name in engines}
            for number in range(options.rounds):
                for name, engine in engines.items():
                    started = time.perf_counter()
                    conduct(recipe, records, options.models, seed=number, engine=engine, progress=False)
                    spent[name].append(time.perf_counter() - started)
            first = spent["one after the other"]
            for name, seconds in spent.items():
                ratio = statistics.median(s / f for s, f in zip(seconds, first, strict=True))
                print(f"| {title} | {name} | {statistics.median(seconds):.1f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
