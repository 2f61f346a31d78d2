"""Models of transformers and peft, tiny and with random weights, with data as users have them.

``MODELS`` maps a name to a function that makes (model, data). None of them is given a loss: the model's own is used.
"""

import re

import torch

COUNT, TOKENS, WORDS, LABELS = 16, 7, 60, 3

SMALL = {
    "vocab_size": WORDS,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPT = {"vocab_size": WORDS, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "pad_token_id": 0}
GPT |= {"bos_token_id": 1, "eos_token_id": 2}
PAIR = {
    "vocab_size": WORDS,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
T5 = {"vocab_size": WORDS, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
T5 |= {"decoder_start_token_id": 0, "pad_token_id": 0}
PICTURE = {k: v for k, v in SMALL.items() if k.startswith(("hidden", "num_", "inter"))}
PICTURE |= {"image_size": 16, "patch_size": 4, "num_channels": 3, "num_labels": LABELS}
STAGES = {"num_channels": 3, "num_labels": LABELS, "depths": [1, 1], "hidden_sizes": [8, 16], "num_stages": 2}

CLASSIFIERS = {
    "Bert": {},
    "DistilBert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24},
    "Albert": {"embedding_size": 8},
    "Roberta": {},
    "Electra": {"embedding_size": 8},
    "Deberta": {},
    "DebertaV2": {"relative_attention": True, "position_biased_input": False, "pos_att_type": ["p2c", "c2p"]},
    "MPNet": {},
    "ModernBert": {"global_attn_every_n_layers": 2, "local_attention": 4},
    "SqueezeBert": {"embedding_size": 16, "q_groups": 1, "k_groups": 1, "v_groups": 1},
    "RoFormer": {"embedding_size": 16},
    "ConvBert": {"embedding_size": 16, "conv_kernel_size": 3, "num_groups": 1},
    "FNet": {},
    "XLNet": {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 24},
    "Longformer": {"attention_window": 4},
}
CAUSAL = {
    "GPT2LMHeadModel": GPT,
    "GPTNeoForCausalLM": SMALL
    | {"num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]]},
    "GPTNeoXForCausalLM": SMALL,
    "OPTForCausalLM": SMALL | {"ffn_dim": 24, "word_embed_proj_dim": 16},
    "BloomForCausalLM": SMALL | {"n_layer": 2, "n_head": 2},
    "LlamaForCausalLM": SMALL | {"num_key_value_heads": 1},
    "GemmaForCausalLM": SMALL | {"num_key_value_heads": 1, "head_dim": 8},
    "Gemma2ForCausalLM": SMALL | {"num_key_value_heads": 1, "head_dim": 8},
    "Qwen2ForCausalLM": SMALL | {"num_key_value_heads": 1},
    "Qwen3ForCausalLM": SMALL | {"num_key_value_heads": 1, "head_dim": 8},
    "MistralForCausalLM": SMALL | {"num_key_value_heads": 1, "head_dim": 8, "sliding_window": 4},
    "PhiForCausalLM": SMALL,
    "FalconForCausalLM": SMALL,
    "OlmoForCausalLM": SMALL,
}
SEQUENCES = {
    "T5": T5,
    "Bart": PAIR,
    "Pegasus": PAIR,
    "MBart": PAIR,
    "M2M100": PAIR,  # no method of theirs shifts the answers
    "Blenderbot": PAIR,
}
SPEECH = {
    "conv_dim": [8, 8],
    "conv_stride": [4, 2],
    "conv_kernel": [5, 3],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "feat_extract_norm": "layer",
    "apply_spec_augment": False,
    "ctc_loss_reduction": "mean",
}
PICTURES = {
    "ViT": PICTURE,
    "DeiT": PICTURE,
    "Beit": PICTURE,
    "Dinov2": PICTURE,
    "Swin": {"image_size": 16, "num_labels": LABELS}
    | {"patch_size": 2, "window_size": 4, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2]},
    "ConvNext": STAGES | {"patch_size": 2},
    "PvtV2": PICTURE
    | {
        "num_encoder_blocks": 2,
        "depths": [1, 1],
        "sr_ratios": [2, 1],
        "hidden_sizes": [8, 16],
        "patch_sizes": [3, 3],
        "strides": [2, 2],
        "num_attention_heads": [1, 2],
        "mlp_ratios": [2, 2],
    },
}
WITH_BATCH_NORM = {"ResNet": STAGES | {"embedding_size": 8, "layer_type": "basic"}}


def _tokens(length=TOKENS):
    return torch.randint(3, WORDS - 10, (COUNT, length))


def _text(**labels):
    """What a tokenizer returns, with labels."""
    lengths = torch.randint(3, TOKENS + 1, (COUNT, 1))
    mask = (torch.arange(TOKENS) < lengths).long()
    return {"input_ids": _tokens() * mask, "attention_mask": mask, **labels}


def _next_words():
    data = _text()
    labels = data["input_ids"].masked_fill(data["attention_mask"] == 0, -100)
    return data | {"labels": labels}


def _make(transformers, name, settings):
    kind = re.sub("(For[A-Z][A-Za-z]*|LMHeadModel|MTModel|Model)$", "", name)
    config = getattr(transformers, f"{kind}Config")(**settings)
    return getattr(transformers, name)(config)


def _classifier(kind, settings):
    def make(packages):
        common = SMALL | {"num_labels": LABELS}
        if kind == "XLNet":  # it has no longest sequence
            del common["max_position_embeddings"]
        model = _make(packages.transformers, f"{kind}ForSequenceClassification", common | settings)
        return model, _text(labels=torch.randint(0, LABELS, (COUNT,)))

    return make


def _pictures(kind, settings):
    def make(packages):
        model = _make(packages.transformers, f"{kind}ForImageClassification", settings)
        rows = [
            {"pixel_values": torch.randn(3, 16, 16), "labels": int(label)}
            for label in torch.randint(0, LABELS, (COUNT,))
        ]
        return model, rows  # a list of records, as a dataset has them

    return make


def _head(end, settings, labels):
    def make(packages):
        return _make(packages.transformers, f"Bert{end}", SMALL | settings), labels()

    return make


def _tags():
    data = _text()
    tags = torch.randint(0, LABELS, (COUNT, TOKENS))
    return data | {"labels": tags.masked_fill(data["attention_mask"] == 0, -100)}


def _ragged():
    """Lists of different lengths, as a tokenizer returns without padding."""
    lengths = torch.randint(3, TOKENS + 1, (COUNT,)).tolist()
    rows = [torch.randint(3, WORDS, (n,)).tolist() for n in lengths]
    return {"input_ids": rows, "attention_mask": [[1] * n for n in lengths], "labels": rows}


def _causal(name, settings):
    return lambda packages: (_make(packages.transformers, name, settings), _next_words())


def _sequence(kind, settings):
    def make(packages):
        answers = _tokens(5)
        answers[:, 3:] = -100
        return _make(packages.transformers, f"{kind}ForConditionalGeneration", settings), _text(
            labels=answers
        )

    return make


def _recordings():
    """Samples of sound of different lengths, and the letters in them."""
    mask = (torch.arange(200) < torch.randint(100, 201, (COUNT, 1))).long()
    letters = torch.randint(3, 20, (COUNT, 4))
    letters[::2, 2:] = -100
    return {"input_values": torch.randn(COUNT, 200), "attention_mask": mask, "labels": letters}


def _spectra():
    return {"input_features": torch.randn(COUNT, 8, 20), "labels": _tokens(5)}


def _questions_on_pictures():
    return _text() | {"pixel_values": torch.randn(COUNT, 3, 16, 16), "labels": torch.rand(COUNT, LABELS)}


def _reader(packages):
    """An encoder of pictures and a decoder of text, put together as for reading scans."""
    transformers = packages.transformers
    encoder = _make(transformers, "ViTModel", PICTURE)
    decoder = _make(transformers, "GPT2LMHeadModel", GPT | {"add_cross_attention": True})
    model = transformers.VisionEncoderDecoderModel(encoder=encoder, decoder=decoder)
    model.config.pad_token_id, model.config.decoder_start_token_id = 0, 1
    return model, {"pixel_values": torch.randn(COUNT, 3, 16, 16), "labels": _tokens(5)}


def _adapted(name, settings, adapter, data):
    def make(packages):
        config = getattr(packages.peft, adapter[0])(**adapter[1])
        return packages.peft.get_peft_model(_make(packages.transformers, name, settings), config), data()

    return make


MODELS = {
    **{f"{k}ForSequenceClassification": _classifier(k, s) for k, s in CLASSIFIERS.items()},
    **{name: _causal(name, settings) for name, settings in CAUSAL.items()},
    **{f"{k}ForConditionalGeneration": _sequence(k, s) for k, s in SEQUENCES.items()},
    **{f"{k}ForImageClassification": _pictures(k, s) for k, s in (PICTURES | WITH_BATCH_NORM).items()},
    "Bert, regression": _head(
        "ForSequenceClassification", {"num_labels": 1}, lambda: _text(labels=torch.randn(COUNT))
    ),
    "Bert, several labels": _head(
        "ForSequenceClassification", {"num_labels": 4}, lambda: _text(labels=torch.rand(COUNT, 4).round())
    ),
    "Bert, labels of tokens": _head("ForTokenClassification", {"num_labels": LABELS}, _tags),
    "Bert, masked words": _head("ForMaskedLM", {}, _next_words),
    "Bert, questions": _head(
        "ForQuestionAnswering",
        {"num_labels": 2},
        lambda: _text(
            start_positions=torch.randint(0, 5, (COUNT,)), end_positions=torch.randint(0, TOKENS, (COUNT,))
        ),
    ),
    "Bert, choices": _head(
        "ForMultipleChoice",
        {},
        lambda: {
            "input_ids": torch.randint(3, WORDS, (COUNT, 2, TOKENS)),
            "labels": torch.randint(0, 2, (COUNT,)),
        },
    ),
    "MarianMTModel": lambda packages: (
        _make(packages.transformers, "MarianMTModel", PAIR),
        _text(labels=_tokens(5)),
    ),
    "Wav2Vec2ForCTC": lambda packages: (
        _make(packages.transformers, "Wav2Vec2ForCTC", SMALL | SPEECH),
        _recordings(),
    ),
    "Whisper": lambda packages: (
        _make(
            packages.transformers,
            "WhisperForConditionalGeneration",
            PAIR | {"num_mel_bins": 8, "max_source_positions": 10, "max_target_positions": 20},
        ),
        _spectra(),
    ),
    "ViT reads, GPT-2 writes": _reader,
    "Vilt, answers from a list": lambda packages: (
        _make(packages.transformers, "ViltForQuestionAnswering", SMALL | PICTURE),
        _questions_on_pictures(),
    ),
    "GPT-2, ragged": lambda packages: (_make(packages.transformers, "GPT2LMHeadModel", GPT), _ragged()),
    "GPT-2 with LoRA of peft": _adapted(
        "GPT2LMHeadModel",
        GPT,
        (
            "LoraConfig",
            {"task_type": "CAUSAL_LM", "r": 2, "target_modules": ["c_attn"], "fan_in_fan_out": True},
        ),
        _next_words,
    ),
    "Llama with LoRA of peft": _adapted(
        "LlamaForCausalLM",
        SMALL,
        ("LoraConfig", {"task_type": "CAUSAL_LM", "r": 2, "target_modules": ["q_proj", "v_proj"]}),
        _next_words,
    ),
    "Bert with LoRA of peft": _adapted(
        "BertForSequenceClassification",
        SMALL | {"num_labels": LABELS},
        ("LoraConfig", {"task_type": "SEQ_CLS", "r": 2, "target_modules": ["query", "value"]}),
        lambda: _text(labels=torch.randint(0, LABELS, (COUNT,))),
    ),
}
REFUSED = {f"{kind}ForImageClassification": "BatchNorm" for kind in WITH_BATCH_NORM}
