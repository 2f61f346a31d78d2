"""Figures of the reconstruction attacks: what is recovered, with intervals, beside the blind guess and the
ceiling.

    python bench/published/reconstruction.py [sums] [wild] [release] [averaging] [models] [census] [ceiling]

Seeds are 0, 1, 2 … and were never chosen. Intervals are at 95 %, over all targets of all draws.
"""

import sys
import time

import numpy as np
import polars

import privet
from privet.attacks import see
from privet.attacks.reconstruction import (
    Averaging,
    ConsistentTables,
    LeastSquares,
    LinearProgram,
    ModelDifferencing,
    ModelPair,
    PeopleColumns,
    PeopleGroup,
    PublishedStatistic,
    SubsetSums,
)
from privet.auditing import measure_recoveries
from privet.randomness import SeededNoise
from privet.recoveries import Recoveries
from privet.releasing import Budget, ReleasePlan, Sum
from privet.releasing.simulated_releases import simulate_releases
from privet.scores import Records

SHARE = 0.55  # of ones


def pool(parts: list[Recoveries]) -> Recoveries:
    """All targets of several draws as one list."""
    first = parts[0]
    blind = None if first.blind_hits is None else np.concatenate([part.blind_hits for part in parts])
    hits = np.concatenate([part.hits for part in parts])
    return Recoveries(
        first.attack, first.adversary, first.criterion, hits, blind_hits=blind, candidates=first.candidates
    )


def draw_sums(generator, people, error, wild=0.0):
    bits = (generator.random(people) < SHARE).astype(int)
    queries = generator.random((4 * people, people)) < 0.5
    answers = queries.astype(np.float32) @ bits
    answers = answers + generator.uniform(-1, 1, len(queries)) * error * np.sqrt(people)
    spoilt = generator.random(len(queries)) < wild
    answers[spoilt] = generator.uniform(0, people, spoilt.sum())
    return SubsetSums(queries, answers), bits


def sums() -> None:
    print("\n2,000 people, 8,000 random subset sums, each off by up to E·√n (uniform); 3 draws")
    for error in (0.25, 0.5, 1.0, 2.0):
        parts, seconds = [], []
        for seed in range(3):
            published, bits = draw_sums(np.random.default_rng(seed), 2000, error)
            started = time.process_time()
            parts.append(LeastSquares(prior=SHARE).run(published, bits))
            seconds.append(time.process_time() - started)
        print(
            f"  E = {error:4}: {measure_recoveries(pool(parts))}; {np.median(seconds):.2f} s of processor time"
        )


def wild() -> None:
    print("\n100 people, 400 sums off by up to E·√n, of which 10 % are any number from 0 to 100; 20 draws")
    for error in (0.25, 0.33, 0.5):
        for attack in (LinearProgram(prior=SHARE), LeastSquares(prior=SHARE)):
            parts = []
            for seed in range(20):
                published, bits = draw_sums(np.random.default_rng(seed), 100, error, wild=0.1)
                parts.append(attack.run(published, bits))
            print(f"  E = {error:4}: {measure_recoveries(pool(parts))}")


def release() -> None:
    print("\n50 people, 200 random subset sums through privet.release; 10 draws")
    for epsilon in (1.0, 10.0, 30.0, 100.0, 200.0, 400.0):
        parts, ceiling = [], 1.0
        for seed in range(10):
            generator = np.random.default_rng(seed)
            bits = (generator.random(50) < 0.58).astype(int)
            queries = generator.random((200, 50)) < 0.5
            table = polars.DataFrame(
                {f"q{place}": (row * bits).tolist() for place, row in enumerate(queries)}
            )
            statistics = {name: Sum(name, 0, 1) for name in table.columns}
            released = privet.release(table, statistics, unit=None, epsilon=epsilon)
            answers = np.array([released[name].value for name in table.columns])
            noise = np.sqrt(2) * 200 / epsilon  # published: Laplace noise of scale 200/ε
            parts.append(LeastSquares(prior=0.58).run(SubsetSums(queries, answers, noise=noise), bits))
            if seed == 0:
                ceiling = privet.account(released.ledger).tpr(fpr=0.58)
        print(f"  ε = {epsilon:5g}: {measure_recoveries(pool(parts))}; ceiling {ceiling:.3f}")


def averaging() -> None:
    print(
        "\nOne count of 150 at ε = 0.1 each, K answers: root mean square error of the mean, of 2,000 people "
        "who ask"
    )
    generator = np.random.default_rng(0)
    for repeats in (1, 10, 100, 1000):
        fresh = 150 + generator.laplace(0, 10, (2000, repeats))
        stored = np.repeat(fresh[:, :1], repeats, axis=1)
        errors = [
            float(np.sqrt(np.mean((Averaging().estimate(each) - 150) ** 2))) for each in (fresh, stored)
        ]
        print(
            f"  K = {repeats:4}: fresh {errors[0]:6.2f} (14.14/√K = {14.142 / np.sqrt(repeats):5.2f}), "
            f"stored {errors[1]:6.2f}"
        )


def models() -> None:
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    print(
        "\nTwo logistic regressions on digits, 500 people, with and without one; 1,000 candidates; 40 pairs "
        "a draw, 3 draws"
    )
    digits = load_digits()
    records, labels, seconds = [], [], []
    for seed in range(3):
        generator = np.random.default_rng(seed)
        order = generator.permutation(len(digits.target))
        inputs, classes = digits.data[order] / 16, digits.target[order]

        def fit(chosen, inputs=inputs, classes=classes):
            return see(LogisticRegression(max_iter=2000, tol=1e-8).fit(inputs[chosen], classes[chosen]))

        others, candidates = np.arange(500), np.arange(500, 1500)
        before, truths = fit(others), generator.integers(0, 1000, 40)
        pairs = [ModelPair(before, fit(np.r_[others, candidates[truth]])) for truth in truths]
        started = time.perf_counter()
        named = ModelDifferencing().run_records(
            pairs, Records(inputs[candidates], classes[candidates]), truths
        )
        seconds.append((time.perf_counter() - started) / len(pairs))
        records.append(named)
        targets = Records(inputs[candidates[truths]], classes[candidates[truths]])
        labels.append(ModelDifferencing().run_labels(pairs, targets, blind=before.labels(targets.inputs)))
    print(f"  {measure_recoveries(pool(records))}; {np.median(seconds):.4f} s a pair")
    print(f"  {measure_recoveries(pool(labels))} (baseline: the label that the first model predicts)")


def census() -> None:
    print(
        "\nSeven people of a block, ages 0 to 125, two sexes, two origins, married or not: 14 published "
        "statistics"
    )
    sex, origin, married = {"sex": ("f", "m")}, {"origin": ("a", "b")}, {"married": ("no", "yes")}
    columns = PeopleColumns(
        sex | origin | married, "age", 0, 125, impossible=(PeopleGroup({"married": "yes"}, upper=17),)
    )
    published = [
        PublishedStatistic(PeopleGroup(), count=7, median=30, mean=38),
        PublishedStatistic(PeopleGroup({"sex": "f"}), count=4, median=30, mean=33.5),
        PublishedStatistic(PeopleGroup({"sex": "m"}), count=3, median=30, mean=44),
        PublishedStatistic(PeopleGroup({"origin": "a"}), count=4, median=51, mean=48.5),
        PublishedStatistic(PeopleGroup({"origin": "b"}), count=3, median=24, mean=24),
        PublishedStatistic(PeopleGroup({"married": "no"}, lower=18), below=3),
        PublishedStatistic(PeopleGroup({"married": "yes"}, lower=18), count=4, median=51, mean=54),
        PublishedStatistic(PeopleGroup({"sex": "f", "origin": "a"}), count=3, median=36, mean=36.7),
        *(PublishedStatistic(PeopleGroup({"sex": s, "origin": o}), below=3) for s, o in ("ma", "mb", "fb")),
        PublishedStatistic(PeopleGroup(upper=4), below=3),
        PublishedStatistic(PeopleGroup(upper=17), below=3),
        PublishedStatistic(PeopleGroup(lower=64), below=3),
    ]
    attack = ConsistentTables(columns)
    for words, kept in (
        ("all of them", published),
        ("without those of sex and origin together", published[:7]),
    ):
        started = time.perf_counter()
        certified = attack.certify(kept)
        print(
            f"  {words}: {len(certified.people)} of 7 people certified, {len(certified.possible)} rows "
            "possible; "
            f"{time.perf_counter() - started:.2f} s"
        )


def ceiling() -> None:
    print(
        "\n200 releases each of 24 sums over 12 people with fair bits, least squares: recovered, and the "
        "ceiling"
    )
    for epsilon, delta in ((0.5, 0.0), (1.0, 0.0), (2.0, 0.0), (4.0, 1e-5), (8.0, 1e-5)):
        generator, noise, shares = np.random.default_rng(0), SeededNoise(0), []
        for _ in range(200):
            bits = generator.integers(0, 2, 12)
            queries = generator.random((24, 12)) < 0.5
            table = polars.DataFrame(
                {f"q{place}": (row * bits).tolist() for place, row in enumerate(queries)}
            )
            statistics = tuple((name, Sum(name, 0, 1)) for name in table.columns)
            plan = ReleasePlan(statistics=statistics, unit=None, budget=Budget(epsilon=epsilon, delta=delta))
            answers = simulate_releases(plan, table, times=1, noise=noise)
            flat = np.array([answers[name][0, 0] for name in table.columns])
            shares.append(LeastSquares().run(SubsetSums(queries, flat), bits, candidates=2).hits.mean())
        claim = privet.account(plan.event, adjacency=plan.relation)
        error = np.std(shares) / np.sqrt(len(shares))
        print(
            f"  ε = {epsilon:g}, δ = {delta:g}: {np.mean(shares):.3f} ± {1.96 * error:.3f} ≤ "
            f"{claim.tpr(fpr=0.5):.3f}"
        )


def main(wanted: list[str]) -> None:
    """Run what is asked for, or everything."""
    every = {each.__name__: each for each in (sums, wild, release, averaging, models, census, ceiling)}
    for name in wanted or every:
        every[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
