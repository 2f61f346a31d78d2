"""What the engine costs: a federated run in one process, over the same training in a plain loop.

    OMP_NUM_THREADS=1 python bench/federated/overhead.py

100 clients × 10 rounds of a model with about 3,000 parameters; processor time, in one process, in turns. The plain
loop copies the weights, takes the same steps on the same batches, and adds up the changes: no messages, no checks,
no ledger. Both give the same weights. The bar is 1.3 for 100 examples a client in batches of 10.

2026-11-18, two cores that other programs kept busy: 1.27, and 1.32 with clip and noise. With 60 examples in batches of
32 a client takes two steps, and the engine costs as much as the training: 2.09 and 2.10.
"""

import json
import sys
import time
from statistics import median

import numpy as np
import torch
from torch import nn

import privet
from privet.federated import CentralNoise, FedAvg, NoNoise
from privet.federated.model_layout import ModelLayout

CLIENTS, ROUNDS, FEATURES, CLASSES, RATE = 100, 10, 20, 10, 0.1
TURNS = 3


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, 95), nn.ReLU(), nn.Linear(95, CLASSES))


def make_clients(rows):
    generator = torch.Generator().manual_seed(1)
    rule = torch.randn(FEATURES, CLASSES, generator=generator)
    clients = []
    for _ in range(CLIENTS):
        inputs = torch.randn(rows, FEATURES, generator=generator)
        clients.append((inputs, (inputs @ rule).argmax(dim=1)))
    return clients


def run_plain(clients, batch, epochs):
    """Federated averaging as one writes it without an engine."""
    model, loss = make_model(), nn.CrossEntropyLoss()
    parameters = list(model.parameters())
    for number in range(1, ROUNDS + 1):
        start = [parameter.detach().clone() for parameter in parameters]
        total = [torch.zeros_like(parameter) for parameter in start]
        for client, (inputs, labels) in enumerate(clients):
            generator = np.random.default_rng(np.random.SeedSequence((0, number, client)))
            with torch.no_grad():
                for parameter, value in zip(parameters, start, strict=True):
                    parameter.copy_(value)
            for _ in range(epochs):
                for rows in torch.from_numpy(generator.permutation(len(inputs))).split(batch):
                    gradients = torch.autograd.grad(loss(model(inputs[rows]), labels[rows]), parameters)
                    with torch.no_grad():
                        for parameter, gradient in zip(parameters, gradients, strict=True):
                            parameter.sub_(gradient, alpha=RATE)
            with torch.no_grad():
                for added, parameter, value in zip(total, parameters, start, strict=True):
                    added.add_(parameter - value)
        with torch.no_grad():
            for parameter, value, added in zip(parameters, start, total, strict=True):
                parameter.copy_(value + added / CLIENTS)
    return model


def run_engine(clients, batch, epochs, *, private=False):
    arguments = (
        {"epsilon": 8.0, "delta": 1e-4, "privacy": CentralNoise(clip=1.0)}
        if private
        else {"privacy": NoNoise()}
    )
    training = FedAvg(epochs=epochs, batch_size=batch, learning_rate=RATE)
    return privet.federate(make_model(), clients, rounds=ROUNDS, training=training, **arguments).model


def measure(run, *arguments, **options):
    start = time.process_time()
    model = run(*arguments, **options)
    return time.process_time() - start, ModelLayout(model).read(model)


def compare(rows, batch, epochs):
    clients = make_clients(rows)
    run_plain(clients[:2], batch, 1)
    run_engine(clients[:2], batch, 1)
    run_engine(clients[:2], batch, 1, private=True)
    times = {"plain": [], "engine": [], "engine with noise": []}
    for _ in range(TURNS):
        seconds, expected = measure(run_plain, clients, batch, epochs)
        times["plain"].append(seconds)
        seconds, found = measure(run_engine, clients, batch, epochs)
        times["engine"].append(seconds)
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
        times["engine with noise"].append(measure(run_engine, clients, batch, epochs, private=True)[0])
    ratios = [engine / plain for engine, plain in zip(times["engine"], times["plain"], strict=True)]
    noisy = [engine / plain for engine, plain in zip(times["engine with noise"], times["plain"], strict=True)]
    return {
        "examples": rows,
        "batch": batch,
        "epochs": epochs,
        "parameters": sum(parameter.numel() for parameter in make_model().parameters()),
        "plain_seconds": median(times["plain"]),
        "ratio": median(ratios),
        "ratio_with_noise": median(noisy),
    }


def main():
    rows = [compare(100, 10, 1), compare(60, 32, 1)]
    if "--json" in sys.argv:
        print(json.dumps(rows, indent=2))
        return
    print("examples  batch  epochs  parameters  plain, s  engine / plain  with noise / plain")
    for row in rows:
        print(
            f"{row['examples']:8}  {row['batch']:5}  {row['epochs']:6}  {row['parameters']:10}  {row['plain_seconds']:8.2f}"
            f"  {row['ratio']:14.2f}  {row['ratio_with_noise']:18.2f}"
        )


if __name__ == "__main__":
    main()
