"""Letters and a licence: which words a language model repeats, whose they are, and what a proof changes.

A model of public letters is trained further on private ones. Some of the training texts carry the licence of
NumPy, as files of source code do. The plain model writes the licence word for word, which harms nobody, and
then letters of people, which does. The private model goes on from the same public model. Its ε is that of
a writer with all letters. Beside it stands the plain model, stopped where it is as good as the private one.

    pip install 'privet[torch,examples]'
    python examples/letters_and_licence.py [folder]
"""

import sys
import textwrap
from collections.abc import Sequence
from copy import deepcopy
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, ORANGE, panels, save, show, thousands

import privet
from privet import AddRemove
from privet.adjacency import Unit
from privet.attacks.text import (
    Decoding,
    LSTMLanguageModel,
    TextRecipe,
    TorchTokenView,
    WordEncoder,
    encode_texts,
    generate,
)
from privet.datasets.letters import letter_words, write_letters
from privet.randomness import NoiseSource, SecureNoise
from privet.reporting import ModelAudit
from privet.training import UserLanguageModel, gather_users

WRITERS, LETTERS = 240, 3
COPIES, SHOWN = 12, 8  # copies of the licence, and its words that the model is given
EPSILON, DELTA = 8.0, 1e-5
PROMPT, PASSAGE = 24, 12


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """Trains both models, makes them write, audits them, and compares."""
    licence = read_licence()
    encoder = WordEncoder(tuple(sorted({*letter_words(), *licence.split()})))
    letters, public = write_letters(WRITERS, LETTERS, seed=1), write_letters(WRITERS // 4, LETTERS, seed=2)
    coins = np.repeat(np.random.default_rng(3).integers(0, 2, WRITERS).astype(bool), LETTERS)
    texts = [text for text, coin in zip(letters.texts, coins, strict=True) if coin] + [licence] * COPIES
    names = [name for name, coin in zip(letters.authors, coins, strict=True) if coin]
    names += [f"file {number}" for number in range(COPIES)]
    sequences = encode_texts(encoder, texts, end=encoder.end)

    base = train(encode_texts(encoder, public.texts, end=encoder.end), encoder, None, epochs=6)
    plain = train(sequences, encoder, base, epochs=24)
    users = gather_users(sequences, names, most_texts=LETTERS, most_tokens=64)
    trained = privet.train(
        UserLanguageModel(deepcopy(base.model)),
        users.data,
        epsilon=EPSILON,
        delta=DELTA,
        epochs=10,
        adjacency=AddRemove(Unit.USER),
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
        noise=noise or SecureNoise(),
    )
    private = TorchTokenView(trained.model.model, end=encoder.end)
    # A poor model repeats nothing either. So the plain one is also stopped where it is as good as the private.
    held_out = [text for text, coin in zip(letters.texts, coins, strict=True) if not coin]
    checked = encode_texts(encoder, held_out, end=encoder.end)
    early = train(sequences, encoder, base, epochs=24, until=loss(private, checked), checked=checked)

    audits, rows = [], [["public letters", f"{loss(base, checked):.2f}", *["–"] * 6]]
    for name, view in (("plain", plain), ("plain, stopped early", early), ("private", private)):
        report = privet.audit_text(
            view,
            encoder,
            letters.texts,
            coins,
            authors=letters.authors,
            public=public.texts,
            public_models=[base],
            public_vocabulary=True,
            prompt_tokens=PROMPT,
            passage_tokens=PASSAGE,
            samples=0,
            ledger=trained.ledger if view is private else None,
            name=name,
        )
        audits.append(report.audits[0])
        rows.append(describe(report.audits[0], count_words(view, encoder, licence)))
    header = ("model", "loss", "licence", "writers found*", "passages", "left out", "ε at least", "ε at most")
    show(f"{WRITERS} writers of {LETTERS} letters; {COPIES} copies of the licence", header, rows)
    print("  * at 5 % false alarms")
    print(f"\nThe plain model, given the first {SHOWN} words of the licence:")
    print(textwrap.fill(write_on(plain, encoder, licence), 100, initial_indent="  ", subsequent_indent="  "))
    show_exposed(audits[0])
    print(
        "\nThe licence is nobody's secret, and the model repeats it because it saw it often. A letter has one writer.\n"
        "A plain model that is stopped early repeats little, too; only the private one has a proof, for every attack.\n"
        "It has learnt next to nothing that the public letters had not taught: a hundred writers are few for a proof."
    )
    return save(draw(audits), out, "letters_and_licence.png")


def read_licence(words: int = 60) -> str:
    """The conditions of NumPy's licence, which is installed with it."""
    files = distribution("numpy").files or []
    text = next(file for file in files if file.name == "LICENSE.txt").read_text()
    return " ".join(text[text.index("Redistribution and use") :].split()[:words])


def train(
    sequences: list[np.ndarray],
    encoder: WordEncoder,
    start: TorchTokenView | None,
    *,
    epochs: int,
    until: float = -np.inf,
    checked: Sequence[np.ndarray] = (),
) -> TorchTokenView:
    """Trains without privacy, from nothing or from another model, until the loss of other letters is low."""

    def make() -> LSTMLanguageModel:
        if start is not None:
            return deepcopy(start.model)
        return LSTMLanguageModel(encoder.vocabulary, embedding=48, width=128)

    recipe = TextRecipe(
        model=make,
        epochs=epochs,
        batch_size=8 if checked else 16,
        learning_rate=1e-3 if checked else 5e-3,
        end=encoder.end,
    )
    if not checked:
        return recipe.train(sequences, seed=1)
    return next(view for view in recipe.train_by_epoch(sequences, seed=1) if loss(view, checked) <= until)


def loss(view: TorchTokenView, sequences: Sequence[np.ndarray]) -> float:
    """The mean of −ln p over the tokens, in nats."""
    return -float(view.logprobs(sequences).logprobs.mean())


def write_on(view: TorchTokenView, encoder: WordEncoder, licence: str) -> str:
    """What the model writes after the first words of the licence."""
    tokens = encode_texts(encoder, [licence], end=encoder.end)[0]
    written = generate(
        view,
        [tokens[: SHOWN + 1]],
        len(tokens) - SHOWN - 2,
        decoding=Decoding(temperature=0),
        generator=np.random.default_rng(0),
    )
    return encoder.decode(written[0])


def count_words(view: TorchTokenView, encoder: WordEncoder, licence: str) -> str:
    """How many words of the licence come back before the first that differs."""
    truth, written = licence.split()[SHOWN:], write_on(view, encoder, licence).split()
    same = [a == b for a, b in zip(truth, written, strict=False)]
    return f"{[*same, False].index(False)} of {len(truth)} words"


def describe(audit: ModelAudit, licence: str) -> list[str]:
    """The figures of one model."""
    best = strongest(audit)
    found = best.leakage.tpr(0.05)
    greedy = next(each.leakage for each in audit.recoveries if each.name == "greedy extraction")
    proved = audit.epsilon_proved
    return [
        audit.name,
        f"{audit.text.loss_on_others:.2f}",
        licence,
        "–" if found is None else f"{100 * found.value:.0f} %",
        f"{100 * greedy.success.value:.1f} %",
        f"{100 * greedy.baseline.value:.1f} %",
        f"{audit.epsilon_measured:.2f}",
        "∞" if proved is None else f"{proved:.2f}",
    ]


def strongest(audit: ModelAudit) -> privet.reporting.AttackResult:
    """The attack on writers that tells most of them apart."""
    on_authors = [result for result in audit.results if result.unit == "author"]
    return max(on_authors, key=lambda result: result.leakage.auc.value)


def show_exposed(audit: ModelAudit) -> None:
    """The writers that are found most easily, and one passage beside its source. All letters are invented."""
    facts = audit.text
    rows = [
        [unit.words, f"{unit.score:.2f}", unit.as_high, "yes" if unit.flagged else "no"]
        for unit in facts.exposed_authors[:4]
    ]
    title = f"The plain model's most exposed writers, by {facts.author_attack}"
    header = ("writer", "score", f"of {facts.authors_left_out} left out, as high", "stands out")
    show(title, header, rows)
    passage = facts.passages[0]
    print(f"\nA letter that was trained on, and what the plain model writes after its first {PROMPT} words:")
    for name, pieces in (("source", passage.source), ("model", passage.written)):
        print(f"  {name:7}" + "".join(piece.text.upper() if piece.same else piece.text for piece in pieces))
    print("  (capitals: the same word at the same place)")


def draw(audits: list[ModelAudit]) -> Figure:
    """Passages that come back, and writers that are found."""
    figure, (left, right) = panels(2)
    colours = (ORANGE, BLUE, GREEN)
    tries = [next(each.leakage for each in audit.recoveries if "tries" in each.name) for audit in audits]
    for place, (leak, colour) in enumerate(zip(tries, colours, strict=True)):
        for offset, share, shade, whose in (
            (-0.19, leak.success, colour, "trained on"),
            (0.19, leak.baseline, GREY, "left out"),
        ):
            left.barh(place + offset, 100 * share.value, 0.34, color=shade)
            left.text(100 * share.value + 0.3, place + offset, f"{share.value:.1%}, {whose}", va="center")
    left.set_yticks(range(len(audits)), [audit.name for audit in audits])
    left.invert_yaxis()
    left.set(
        title=f"Letters of which {PASSAGE} words come back in 100 tries",
        xlabel="share of writers, %",
    )
    left.margins(x=0.3)
    left.grid(visible=False, axis="y")
    for audit, colour in zip(audits, colours, strict=True):
        roc = strongest(audit).leakage.roc
        right.step(100 * roc.fpr, 100 * roc.tpr, where="post", color=colour, label=audit.name)
    right.plot([0.1, 100], [0.1, 100], color=GREY, linestyle="--", linewidth=1, label="blind guess")
    right.set(title="Writers who are found", xlabel="false alarms, %", ylabel="writers found, %")
    right.set(xscale="log", yscale="log", xlim=(0.8, 100), ylim=(0.8, 110))
    for axis in (right.xaxis, right.yaxis):
        thousands(axis)
    right.legend(loc="lower right")
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "examples-out"))
