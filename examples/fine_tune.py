"""Fine-tune a small language model on private text with LoRA: what the text teaches, and what privacy costs.

A model of bytes is trained on public text, the reference that comes with Python. Then it learns how the
documentation of SciPy is written, which plays the private text. Only low-rank changes of its linear layers
are trained, so that few numbers get noise. The model is one of Hugging Face, as it is: it takes
``input_ids`` and ``labels``, and computes its own loss. Privet takes the loss of each piece of text by itself.

    pip install 'privet[foreign,examples]'
    python examples/fine_tune.py [folder]
"""

import math
import re
import sys
from pathlib import Path
from pydoc_data.topics import topics

import scipy.special
import scipy.stats
import torch
from matplotlib.figure import Figure
from style import GREEN, GREY, ORANGE, panels, save, show
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

import privet
from privet.randomness import NoiseSource, SecureNoise
from privet.training import LoRA, merge_adapters

LENGTH, RECORDS = 32, 16_000
EPSILON, DELTA, EPOCHS, LOT = 8.0, 1e-6, 2, 512
PUBLIC_STEPS, BATCH, RATE = 200, 64, 5e-3


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """Trains on public text, fine-tunes on private text with and without noise, and compares."""
    noise = noise or SecureNoise()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        public, private = read_public(), read_private()
        held_out, private = private[:1000], private[1000 : 1000 + RECORDS]
        model = make_model()
        train_plainly(model, public, PUBLIC_STEPS, BATCH)
        before = bits_per_byte(model, held_out)

        # One piece of text is one record here. In earnest a record is all that one person wrote.
        adapted = LoRA(rank=8, also="lm_head").apply_to(model.train())
        data = {"input_ids": private, "labels": private}
        trained = privet.train(
            adapted,
            data,
            epsilon=EPSILON,
            delta=DELTA,
            epochs=EPOCHS,
            lot_size=LOT,
            optimizer=lambda parameters: torch.optim.Adam(parameters, lr=RATE),
            population=len(private),  # the size of the documentation is public
            noise=noise,
        )
        after = bits_per_byte(merge_adapters(trained.model), held_out)

        plain = LoRA(rank=8, also="lm_head").apply_to(model)
        train_plainly(plain, private, trained.plan.steps, LOT)
        without = bits_per_byte(plain, held_out)

    spent = trained.epsilon(delta=DELTA)
    count = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
    show(
        f"Private text of another kind: {len(private):,} pieces of {LENGTH} bytes, {count:,} trained numbers",
        ("model", "bits per byte", "ε"),
        [
            ("public text only", f"{before:.2f}", "0"),
            ("fine-tuned with privacy", f"{after:.2f}", f"{spent:.2f}"),
            ("fine-tuned without", f"{without:.2f}", "∞"),
        ],
    )
    gained = (before - after) / (before - without)
    print(f"With privacy the text teaches {gained:.0%} of what it teaches without.")
    return save(draw(before, after, without, spent), out, "fine_tune.png")


def read_public() -> Tensor:
    """The reference of Python, which comes with it, in pieces."""
    return cut("\n".join(topics.values()))


def read_private() -> Tensor:
    """The documentation of functions and distributions of SciPy, in pieces."""
    modules = scipy.special, scipy.stats
    parts = [vars(module)[name].__doc__ or "" for module in modules for name in module.__all__]
    return cut("\n".join(parts))


def cut(text: str) -> Tensor:
    """Pieces of LENGTH bytes."""
    squeezed = re.sub(r"\s+", " ", text).encode("ascii", "replace")
    count = len(squeezed) // LENGTH
    numbers = torch.tensor(list(squeezed[: count * LENGTH])).view(count, LENGTH)
    return numbers[torch.randperm(count)]


def make_model() -> LlamaForCausalLM:
    """A small Llama over bytes."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=128,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=LENGTH,
            bos_token_id=None,
            eos_token_id=None,
        )
    )


def train_plainly(model: nn.Module, rows: Tensor, steps: int, batch: int) -> None:
    """Trains without privacy."""
    model.train()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], RATE)
    for _ in range(steps):
        chosen = rows[torch.randint(len(rows), (batch,))]
        optimizer.zero_grad()
        model(input_ids=chosen, labels=chosen).loss.backward()
        optimizer.step()


def bits_per_byte(model: nn.Module, rows: Tensor) -> float:
    """The mean cross entropy of a byte, in bits. The held-out text is published here for the comparison."""
    model.eval()
    with torch.no_grad():
        losses = [float(model(input_ids=part, labels=part).loss) * len(part) for part in rows.split(256)]
    return sum(losses) / len(rows) / math.log(2)


def draw(before: float, after: float, without: float, spent: float) -> Figure:
    """Bars: before, with privacy, without."""
    figure, axes = panels(1)
    names = ("public text only", f"with privacy, ε = {spent:.1f}", "without privacy")
    axes[0].bar(names, (before, after, without), color=(GREY, GREEN, ORANGE), width=0.55)
    axes[0].set_ylabel("bits per byte of held-out text")
    axes[0].set_title("What private text teaches a language model")
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
