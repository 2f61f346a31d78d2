"""Several clients learn to read digits together. The same file runs in one process, on Ray and over TLS.

In one process:                python digits_app.py
On Ray, with one node each:    python digits_app.py --ray
On several machines with TLS:  README.md beside this file

Each client has its own part of the digits, and reads it where it runs. With CLIENTS below 20 there is nobody to
hide among, so the run is without noise unless PRIVATE=1 is set.
"""

import os
import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from privet.federated import CentralNoise, FedAvg, Federated, FederatedApp, NoNoise

CLIENTS = int(os.environ.get("CLIENTS", "3"))
ROUNDS = int(os.environ.get("ROUNDS", "2"))
PRIVATE = os.environ.get("PRIVATE") == "1"
RESULT = Path(os.environ.get("RESULT", "digits_model.pt"))


def read_client(number: int) -> tuple[Tensor, Tensor]:
    """The digits of one client: here every CLIENTS-th one, in a real deployment its own files."""
    digits = load_digits()
    rows = slice(number, 1500, CLIENTS)
    return torch.tensor(digits.data[rows] / 16, dtype=torch.float32), torch.tensor(digits.target[rows])


def measure_accuracy(model: nn.Module) -> float:
    """The share of right answers on digits that no client has. They are public."""
    digits = load_digits()
    pictures = torch.tensor(digits.data[1500:] / 16, dtype=torch.float32)
    with torch.no_grad():
        answers = model(pictures).argmax(dim=1)
    return float((answers == torch.tensor(digits.target[1500:])).float().mean())


def deliver(result: Federated) -> None:
    """Called at the server when the run has ended."""
    torch.save(result.model.state_dict(), RESULT)
    last = result.history[-1]
    print(
        f"{len(result.history)} rounds, {last.contributors} clients in the last one, accuracy {last.watched:.3f}"
    )
    if result.ledger is None:
        print("no noise, so no guarantee")
    else:
        print(f"epsilon {result.epsilon(delta=1e-3):.2f} at delta 0.001 for each client")


def build_app() -> FederatedApp:
    """What server and clients agree on."""
    torch.manual_seed(0)  # the same first weights wherever this file is loaded
    return FederatedApp(
        nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)),
        read_client,
        population=CLIENTS,
        rounds=ROUNDS,
        epsilon=8 if PRIVATE else None,
        delta=1e-3 if PRIVATE else None,
        privacy=CentralNoise() if PRIVATE else NoNoise(),
        training=FedAvg(epochs=2, learning_rate=0.2),
        watch=measure_accuracy,
        deliver=deliver,
    )


app = build_app()
server_app = app.server_app
client_app = app.client_app

if __name__ == "__main__":
    if "--ray" in sys.argv:
        from flwr.simulation import run_simulation  # needs the package ray

        run_simulation(server_app, client_app, num_supernodes=CLIENTS)
    else:
        deliver(app.run())
