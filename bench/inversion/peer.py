"""Runs in the peer's own environment: ``python peer.py GIVEN.npz TAKEN.npz ITERATIONS``.

Geiping's attack as ``breaching`` 0.1.2 configures it ("invertinggradients"), on one picture after the other. It gets the gradient
and the labels, as our attack recovers them. Only the number of iterations is set.
"""

import sys
import time
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

# torchvision's wheel is built for GPUs; next to torch for processors two of its operators are missing, and nothing uses them here.
_LIBRARY = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

import breaching  # noqa: E402


def main(given, taken, iterations):
    torch.set_num_threads(1)
    torch.manual_seed(16)
    data = np.load(given)
    truths, labels = torch.tensor(data["truths"]), torch.tensor(data["labels"])
    channels, side = truths.shape[1], truths.shape[2]
    model = nn.Sequential(
        nn.Conv2d(channels, 12, 5, stride=2, padding=2),
        nn.Sigmoid(),
        nn.Conv2d(12, 12, 5, stride=2, padding=2),
        nn.Sigmoid(),
        nn.Conv2d(12, 12, 5, stride=1, padding=2),
        nn.Sigmoid(),
        nn.Flatten(),
        nn.Linear(12 * (side // 4) ** 2, 10),
    )
    model.load_state_dict(
        {
            name.removeprefix("weight:"): torch.tensor(data[name])
            for name in data
            if name.startswith("weight:")
        }
    )
    loss = nn.CrossEntropyLoss()
    settings = breaching.get_attack_config(
        "invertinggradients", overrides=[f"optim.max_iterations={iterations}"]
    )
    parameters = list(model.parameters())
    pictures, seconds = [], 0.0
    for picture, label in zip(truths, labels, strict=True):
        gradients = torch.autograd.grad(loss(model(picture[None]), label[None]), parameters)
        attacker = breaching.attacks.prepare_attack(
            model, loss, settings, {"device": torch.device("cpu"), "dtype": torch.float}
        )
        metadata = SimpleNamespace(
            shape=list(picture.shape), classes=10, modality="vision", task="classification"
        )
        payload = [{"parameters": [p.detach() for p in parameters], "buffers": [], "metadata": metadata}]
        shared = [
            {
                "gradients": [g.detach() for g in gradients],
                "buffers": None,
                "metadata": {"num_data_points": 1, "labels": label[None], "local_hyperparams": None},
            }
        ]
        start = time.process_time()
        answer, _ = attacker.reconstruct(payload, shared, {})
        seconds += time.process_time() - start
        pictures.append(answer["data"][0].detach().numpy())
    np.savez(taken, pictures=np.stack(pictures), seconds=seconds / len(truths))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
