"""Models that compute their own loss from labels: the loss of an example is that of a batch of this example alone."""

import warnings
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from privet.errors import InvalidArgument
from privet.randomness import SeededNoise
from privet.training import Flat, TrainingPlan, make_private, train
from privet.training.loop.inputs import prepare_data
from privet.training.loop.step import NoisyGradient

COUNT, WORDS = 12, 40
SMALL = {
    "vocab_size": WORDS,
    "n_embd": 16,
    "n_layer": 1,
    "n_head": 2,
    "n_positions": 32,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


@pytest.fixture(autouse=True)
def uncalibrated(monkeypatch):
    monkeypatch.setattr(TrainingPlan, "with_least_noise", lambda plan, _: replace(plan, noise_multiplier=4.0))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def settings():
    return {"epsilon": 3.0, "delta": 1e-6, "epochs": 1, "lot_size": 6}


def text(**labels):
    return {"input_ids": torch.randint(3, WORDS, (COUNT, 7)), **labels}


def collect(model, data, loss=None):
    examples, chosen = prepare_data(model, data, loss)
    names = examples.input_names
    gradient = NoisyGradient(
        model, Flat(0.2), divisor=1.0, multiplier=0.0, source=SeededNoise(1), input_names=names
    )
    gradient.collect(examples, torch.arange(COUNT), chosen)
    return gradient


def loop(model, data):
    parameters = list(model.parameters())
    total = torch.zeros(sum(p.numel() for p in parameters))
    for i in range(COUNT):
        outputs = model(**{name: column[i : i + 1] for name, column in data.items()})
        value = outputs["loss"] if isinstance(outputs, dict) else outputs.loss
        gradients = torch.autograd.grad(value, parameters, allow_unused=True)
        pairs = zip(parameters, gradients, strict=True)
        row = torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for p, g in pairs])
        total += row * min(1.0, 0.2 / float(row.norm()))
    return total


class Triples(nn.Module):
    """A model of one's own in the style of Hugging Face, with a loss that no rule knows."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, 8), nn.Linear(8, 3)

    def forward(self, input_ids, labels=None):
        logits = self.head(self.words(input_ids).mean(1))
        loss = None if labels is None else F.multi_margin_loss(logits, labels) + 0.1 * logits.square().mean()
        return {"loss": loss, "logits": logits}


def test_a_loss_that_no_rule_knows_is_that_of_each_example_alone_with_a_note():
    data = text(labels=torch.randint(0, 3, (COUNT,)))
    model = Triples()
    with pytest.warns(UserWarning, match="goes through the model alone"):
        gradient = collect(model, data)
    assert torch.allclose(gradient.buffer, loop(model, data), atol=1e-5)
    with pytest.warns(UserWarning, match="goes through the model alone"):
        assert train(model, data, **settings()).plan.steps == 2


def test_a_given_loss_is_used_instead_of_the_models_own():
    data = text(labels=torch.randint(0, 3, (COUNT,)))
    model = Triples()
    _, chosen = prepare_data(model, data, nn.CrossEntropyLoss())
    assert isinstance(chosen, nn.CrossEntropyLoss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not collect(model, data, nn.CrossEntropyLoss())._sums.brute_forced


class Conditional(nn.Module):
    """Its labels are an input, and no target."""

    def __init__(self):
        super().__init__()
        self.body, self.classes = nn.Linear(3, 2), nn.Embedding(4, 2)

    def forward(self, x, labels=None):
        return self.body(x) if labels is None else self.body(x) + self.classes(labels)


def test_labels_that_are_an_input_are_no_target():
    x, kinds, labels = torch.randn(COUNT, 3), torch.randint(0, 4, (COUNT,)), torch.randint(0, 2, (COUNT,))
    _, chosen = prepare_data(Conditional(), (x, kinds, labels), None)
    assert isinstance(chosen, nn.CrossEntropyLoss)
    with pytest.raises(InvalidArgument, match="'loss' must be given for a model that returns no loss"):
        prepare_data(Conditional(), {"x": x, "labels": labels}, None)


def test_a_model_without_a_loss_of_its_own_needs_one():
    model, data = nn.Linear(3, 2), (torch.randn(20, 3), torch.randint(0, 2, (20,)))
    more = {"epsilon": 3.0, "delta": 1e-6, "steps": 2, "lot_size": 10}
    private = make_private(model, torch.optim.Adam, data, clip=1.0, **more)
    with pytest.raises(InvalidArgument, match="'loss' must be given"):
        private.step(next(private.lots()))
    assert private.steps_done == 0


def test_a_subclass_with_another_loss_is_found_by_the_first_lot(packages):
    """The rule of the class would be wrong, so it is compared with the model's loss on the first lot."""
    transformers = packages.transformers

    class Smoothed(transformers.GPT2LMHeadModel):
        def forward(self, input_ids, labels=None, **more):
            outputs = super().forward(input_ids, **more)
            if labels is not None:
                outputs.loss = F.cross_entropy(
                    outputs.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), label_smoothing=0.3
                )
            return outputs

    model = Smoothed(transformers.GPT2Config(**SMALL))
    data = text()
    data["labels"] = data["input_ids"]
    with pytest.warns(UserWarning, match="differs from the usual one"):
        gradient = collect(model, data)
    assert torch.allclose(gradient.buffer, loop(model, data), atol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = transformers.GPT2LMHeadModel(transformers.GPT2Config(**SMALL))
        gradient = collect(plain, data)
    assert torch.allclose(gradient.buffer, loop(plain, data), atol=1e-5)
    assert not gradient._sums.brute_forced


PAIR = {
    "vocab_size": WORDS,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 32,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}


@pytest.mark.parametrize("kind", ["Blenderbot", "M2M100"])
def test_answers_are_shifted_where_the_model_has_no_method_for_it(kind, packages):
    """The table of all words would be written out for each example otherwise."""
    transformers = packages.transformers
    model = getattr(transformers, f"{kind}ForConditionalGeneration")(
        getattr(transformers, f"{kind}Config")(**PAIR)
    )
    answers = torch.randint(3, WORDS, (COUNT, 5))
    answers[:, 3:] = -100
    data = text(labels=answers)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradient = collect(model, data)
    assert torch.allclose(gradient.buffer, loop(model, data), atol=1e-5)
    assert not gradient._sums.brute_forced


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("masked", [False, True])
def test_speech_is_aligned_example_by_example(reduction, masked, packages):
    transformers = packages.transformers
    config = transformers.Wav2Vec2Config(
        vocab_size=WORDS,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=24,
        conv_dim=[8, 8],
        conv_stride=[4, 2],
        conv_kernel=[5, 3],
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
        feat_extract_norm="layer",
        apply_spec_augment=False,
        ctc_loss_reduction=reduction,
        pad_token_id=0,
    )
    model = transformers.Wav2Vec2ForCTC(config).eval()
    letters = torch.randint(3, WORDS, (COUNT, 4))
    letters[::3, 1] = -100  # also in the middle
    letters[1] = -100
    data = {"input_values": torch.randn(COUNT, 120), "labels": letters}
    if masked:
        data["attention_mask"] = (torch.arange(120) < torch.randint(60, 121, (COUNT, 1))).long()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="The model is in evaluation mode")
        gradient = collect(model, data)
    assert torch.allclose(gradient.buffer, loop(model, data), atol=1e-5)
    assert not gradient._sums.brute_forced


def test_a_model_that_answers_from_a_list_has_labels_and_no_spans(packages):
    transformers = packages.transformers
    config = transformers.ViltConfig(
        vocab_size=WORDS,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=32,
        image_size=16,
        patch_size=4,
        num_labels=3,
    )
    model = transformers.ViltForQuestionAnswering(config)
    data = text(pixel_values=torch.randn(COUNT, 3, 16, 16), labels=torch.rand(COUNT, 3))
    with pytest.warns(UserWarning, match="goes through the model alone"):
        gradient = collect(model, data)
    assert torch.allclose(gradient.buffer, loop(model, data), atol=1e-5)


def test_a_long_example_does_not_shrink_the_others(packages):
    """The model's own loss of a batch averages over all tokens. Ours is a mean for each example."""
    transformers = packages.transformers
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**SMALL))
    data = text()
    data["labels"] = data["input_ids"].clone()
    data["labels"][1:, 2:] = -100
    expected = loop(model, data)
    assert torch.allclose(collect(model, data).buffer, expected, atol=1e-5)


def test_cross_entropy_takes_the_logits_of_a_model_output(packages):
    transformers = packages.transformers
    config = transformers.GPT2Config(**SMALL, num_labels=3, classifier_dropout=0.0)
    model = transformers.GPT2ForSequenceClassification(config)
    data = text(labels=torch.randint(0, 3, (COUNT,)))
    assert torch.allclose(collect(model, data, nn.CrossEntropyLoss()).buffer, loop(model, data), atol=1e-5)
    tagger = transformers.GPT2ForTokenClassification(config)
    tags = text(labels=torch.randint(0, 3, (COUNT, 7)))
    assert torch.allclose(collect(tagger, tags, nn.CrossEntropyLoss()).buffer, loop(tagger, tags), atol=1e-5)


def test_a_loop_of_ones_own_needs_no_loss(packages):
    transformers = packages.transformers
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**SMALL))
    data = text()
    data["labels"] = data["input_ids"]
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    more = {"epsilon": 3.0, "delta": 1e-6, "steps": 2, "lot_size": 6}
    private = make_private(model, optimizer, data, clip=1.0, **more)
    for lot in private.lots():
        private.step(lot)
    assert private.steps_done == 2


def test_a_collator_of_transformers(packages):
    """It pads to the longest of its batch, or to a multiple; each example comes to it alone."""
    transformers = packages.transformers

    class Tokenizer:
        """As much of a tokenizer as the collator needs."""

        padding_side, deprecation_warnings = "right", {}

        def pad(self, rows, padding=True, max_length=None, pad_to_multiple_of=None, return_tensors=None):
            length = max(len(row["input_ids"]) for row in rows)
            length = -(-length // (pad_to_multiple_of or 1)) * (pad_to_multiple_of or 1)
            fill = {"input_ids": 0, "attention_mask": 0}
            return {
                name: torch.tensor(
                    [
                        row[name] + [fill[name]] * (length - len(row[name])) if name in fill else row[name]
                        for row in rows
                    ]
                )
                for name in rows[0]
            }

    rows = []
    for i in range(COUNT):
        words = torch.randint(3, WORDS, (3 + i % 5,)).tolist()
        rows.append({"input_ids": words, "attention_mask": [1] * len(words), "label": i % 3})
    model = transformers.GPT2ForSequenceClassification(transformers.GPT2Config(**SMALL, num_labels=3))
    collate = transformers.DataCollatorWithPadding(Tokenizer(), pad_to_multiple_of=4)
    trained = train(model, rows, collate=collate, **settings())
    assert trained.plan.steps == 2


def test_what_a_tokenizer_returns_is_taken_as_it_is(packages):
    """``BatchEncoding`` as columns and as records, and ``ModelOutput`` as what a collate function returns."""
    transformers = packages.transformers
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**SMALL))
    data = text()
    data["labels"] = data["input_ids"]
    encoded = transformers.BatchEncoding(data)
    rows = [transformers.BatchEncoding({k: v[i] for k, v in data.items()}) for i in range(COUNT)]

    def stack(examples):
        names = "input_ids", "labels"
        return transformers.utils.ModelOutput({n: torch.stack([row[n] for row in examples]) for n in names})

    wanted = collect(model, data).buffer
    assert torch.allclose(collect(model, encoded).buffer, wanted, atol=1e-6)
    assert torch.allclose(collect(model, rows).buffer, wanted, atol=1e-6)
    examples, _ = prepare_data(model, rows, None, collate=stack)
    assert torch.equal(examples.take(torch.arange(COUNT))[0], data["input_ids"])


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float32])
def test_adapters_of_a_model_in_lower_precision_keep_the_usual_loss(low, packages):
    """The models compute their losses in float32, whatever the precision of the logits is."""
    transformers, peft = packages.transformers, packages.peft
    base = transformers.GPT2LMHeadModel(transformers.GPT2Config(**SMALL)).to(low)
    options = {"task_type": "CAUSAL_LM", "r": 2, "target_modules": ["c_attn"], "fan_in_fan_out": True}
    model = peft.get_peft_model(base, peft.LoraConfig(**options))
    data = text()
    data["labels"] = data["input_ids"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", message="The model is in evaluation mode")
        gradient = collect(model, data)
    assert gradient.buffer.dtype == torch.float32
    assert bool(gradient.buffer.norm() > 0)
    assert not gradient._sums.brute_forced
