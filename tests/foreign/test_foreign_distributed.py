"""Models of other packages in two processes of gloo: one run, the same weights in both, those of one process.

The processes import the packages, which takes seconds.
"""

import multiprocessing
import os
import runpy
import warnings
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from privet.randomness import SecureNoise, SeededNoise
from privet.training import Flat, ProcessGroup, SingleProcess, TrainingPlan, make_private

WORLD, COUNT, STEPS = 2, 24, 4
DEADLINE = 300  # seconds, on a busy machine
WORDS = 40
SMALL = {
    "vocab_size": WORDS,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 16,
    "num_labels": 3,
    "pad_token_id": 0,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
GPT2 = {"vocab_size": WORDS, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16}
NO_DROPOUT = {"embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0}


def packages():
    """As the fixture of this name, which the processes do not have."""
    return runpy.run_path(str(Path(__file__).with_name("packages.py")))["Packages"]()


def bert():
    transformers = packages().transformers
    return transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL))


def gpt2():
    transformers = packages().transformers
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2, **NO_DROPOUT))


def resnet():
    timm = packages().timm
    block = timm.models.resnet.BasicBlock
    sizes = {"layers": (1, 1, 1, 1), "channels": (8, 8, 16, 16), "num_classes": 3}
    return timm.models.ResNet(block, **sizes, norm_layer=timm.layers.GroupNorm1)


def read(name):
    """The data as people have them, and the loss; None is that of the model."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (COUNT,), generator=generator)
    if name == "resnet":
        return (torch.randn(COUNT, 3, 16, 16, generator=generator), labels), nn.CrossEntropyLoss()
    ids = torch.randint(3, WORDS, (COUNT, 7), generator=generator)
    return {"input_ids": ids, "labels": labels if name == "bert" else ids}, None


MODELS = {"bert": bert, "gpt2": gpt2, "resnet": resnet}


def enough(plan, target):
    """More noise than these runs need. To find the least takes longer than all the rest."""
    return replace(plan, noise_multiplier=4.0)


def run(rank, name, process_group=None):
    """The weights, the ledger, and the lots. Processes begin with weights of their own."""
    torch.manual_seed(rank)
    model, (rows, loss) = MODELS[name]().train(), read(name)
    private = make_private(
        model,
        torch.optim.SGD(model.parameters(), 0.1),
        rows,
        epsilon=3.0,
        delta=1e-6,
        steps=STEPS,
        lot_size=9,
        clip=Flat(0.5),
        noise=SeededNoise(1) if rank == 0 else SecureNoise(),  # that of others is not asked
        process_group=process_group,
    )
    lots = []
    for lot in private.lots():
        lots.append(lot.indices.tolist())
        private.step(lot, loss)
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    return weights.numpy(), private.ledger.to_json(), lots


class EachForItself(ProcessGroup):
    """A mistake: no process hears of the other one's gradients."""

    def __new__(cls):
        return SingleProcess()


def serve(rank, folder, pipe):
    warnings.simplefilter("ignore")
    TrainingPlan.with_least_noise = enough
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    meeting = f"file://{folder}/meeting"
    dist.init_process_group("gloo", meeting, timedelta(seconds=DEADLINE), WORLD, rank)
    while (asked := pipe.recv()) is not None:
        name, mistake = asked
        pipe.send(run(rank, name, EachForItself() if mistake else None))


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two processes on loopback that live as long as this file's tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert packages().transformers
        assert packages().timm
    folder = tmp_path_factory.mktemp("together")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch.distributed", "privet.training.loop.run"])
    pipes, processes = [], []
    for rank in range(WORLD):
        mine, theirs = context.Pipe()
        processes.append(context.Process(target=serve, args=(rank, folder, theirs), daemon=True))
        processes[-1].start()
        pipes.append(mine)

    def ask(name, mistake=False):
        for pipe in pipes:
            pipe.send((name, mistake))
        assert all(pipe.poll(DEADLINE) for pipe in pipes), "a process waits for ever"
        return [pipe.recv() for pipe in pipes]

    yield ask
    for process in processes:
        process.kill()
        process.join()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_two_processes_are_one_run(pair, name, monkeypatch):
    monkeypatch.setattr(TrainingPlan, "with_least_noise", enough)
    weights, ledger, lots = run(0, name)
    first, second = pair(name)
    assert bool((first[0] == second[0]).all())  # to the last bit
    assert torch.allclose(torch.from_numpy(first[0]), torch.from_numpy(weights), rtol=1e-3, atol=1e-4)
    assert first[1] == second[1] == ledger
    for whole, one, other in zip(lots, first[2], second[2], strict=True):
        assert sorted(one + other) == whole


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mutation_no_sum_over_processes(pair):
    first, second = pair("bert", mistake=True)
    assert not bool((first[0] == second[0]).all())
