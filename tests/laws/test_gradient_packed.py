"""Recurrent layers on packed sequences: exact against a loop over the examples, and never by brute force."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence

from privet.training.per_example import ClippedSums, CrossExample, per_example_loss
from privet.training.per_example.taps import packed_rows

LOSS = per_example_loss(nn.CrossEntropyLoss())
TIMES, WIDTH, STATE = 7, 4, 3
KINDS = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "rnn": nn.RNN,
    "relu": lambda *args, **options: nn.RNN(*args, nonlinearity="relu", **options),
}


class Flat:
    def __init__(self, bound):
        self.bound = self.ceiling = bound

    def factors(self, squared_norms):
        return (self.bound / squared_norms.sqrt()).clamp(max=1.0)


class Model(nn.Module):
    """A linear layer, a recurrent one, and a head; ``read`` makes features of the layer's two results."""

    def __init__(self, layer, read, width):
        super().__init__()
        self.before, self.layer, self.head = nn.Linear(WIDTH, WIDTH), layer, nn.Linear(width, 3)
        self.read = read

    def forward(self, x, lengths):
        return self.head(self.read(self, self.before(x), lengths))


def run_packed(s, x, lengths, state=None):
    rows = x if s.layer.batch_first else x.transpose(0, 1)
    packed = pack_padded_sequence(rows, lengths.cpu(), s.layer.batch_first, enforce_sorted=False)
    return s.layer(packed) if state is None else s.layer(packed, state)


def read_outputs(s, x, lengths):
    y, _ = run_packed(s, x, lengths)
    padded, _ = pad_packed_sequence(y, s.layer.batch_first, total_length=x.shape[1])
    return padded.tanh().sum(1 if s.layer.batch_first else 0)


def read_shortest(s, x, lengths):
    """Without ``total_length`` the padding of a lot depends on its longest sequence."""
    padded, _ = pad_packed_sequence(run_packed(s, x, lengths)[0], s.layer.batch_first)
    return padded.tanh().sum(1 if s.layer.batch_first else 0)


def read_states(s, x, lengths):
    last = run_packed(s, x, lengths)[1]
    parts = last if isinstance(last, tuple) else (last,)
    return torch.cat([part.transpose(0, 1).flatten(1) for part in parts], 1)


def read_given_state(s, x, lengths):
    state = x[:, :1, :STATE].transpose(0, 1).repeat(s.layer.num_layers * (1 + s.layer.bidirectional), 1, 1)
    y, last = run_packed(s, x, lengths, (state, -state) if isinstance(s.layer, nn.LSTM) else state)
    padded, _ = pad_packed_sequence(y, s.layer.batch_first, total_length=x.shape[1])
    last = last[1] if isinstance(last, tuple) else last
    return torch.cat([padded.sum(1 if s.layer.batch_first else 0), last.transpose(0, 1).flatten(1)], 1)


def read_twice(s, x, lengths):
    return read_outputs(s, x, lengths) + read_outputs(s, x.flip(2), lengths)


def read_list(s, x, lengths):
    """Sequences of different lengths, in a list."""
    rows = pack_sequence([row[:n] for row, n in zip(x, lengths.tolist(), strict=True)], enforce_sorted=False)
    padded, _ = pad_packed_sequence(s.layer(rows)[0], batch_first=True)
    return padded.sum(1)


def read_two_sequences(s, x, lengths):
    """Each example is two sequences."""
    both = torch.stack([x, x.flip(2)], 1).flatten(0, 1)
    twice = torch.stack([lengths, (lengths + 1) // 2], 1).flatten()
    return read_outputs(s, both, twice).view(len(x), -1)


def read_between(s, x, lengths):
    """An operation on the packed rows themselves."""
    y, _ = run_packed(s, x, lengths)
    y = PackedSequence(y.data.tanh() * 2, *y[1:])
    return pad_packed_sequence(y, s.layer.batch_first)[0].sum(1 if s.layer.batch_first else 0)


READS = {
    "outputs": (read_outputs, 1),
    "outputs of the longest": (read_shortest, 1),
    "states": (read_states, 0),
    "given state": (read_given_state, 2),
    "twice": (read_twice, 1),
    "list": (read_list, 1),
    "two sequences": (read_two_sequences, 3),
    "between": (read_between, 1),
}


def build(kind, read, layers=1, both=False, batch_first=True, bias=True, factor=1.0):
    function, shape = READS[read]
    options = {"num_layers": layers, "bias": bias, "batch_first": batch_first, "bidirectional": both}
    layer = KINDS[kind](WIDTH, STATE, **options)
    for parameter in layer.parameters():
        parameter.data *= factor
    count = layers * (1 + both)
    out = STATE * (1 + both)
    states = STATE * count * (2 if kind == "lstm" else 1)
    width = {0: states, 1: out, 2: out + STATE * count, 3: 2 * out}[shape]
    return Model(layer, function, width)


def errors(model, sizes=(4, 6, 5), dtype=torch.float64, longest=(TIMES, 3, TIMES)):
    model = model.to(dtype)
    parameters = [p for p in model.parameters() if p.requires_grad]
    sums, worst = ClippedSums(model, LOSS, Flat(0.3)), 0.0
    for size, most in zip(sizes, longest, strict=True):
        x, lengths = torch.randn(size, TIMES, WIDTH, dtype=dtype), torch.randint(1, most + 1, (size,))
        y = torch.randint(0, 3, (size,))
        out = sums.layout.zeros()
        norms = sums.add((x, lengths), y, out)
        rows = []
        for i in range(size):
            loss = LOSS(model(x[i : i + 1], lengths[i : i + 1]), y[i : i + 1]).sum()
            rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)]).double())
        truth = torch.stack(rows).square().sum(1)
        total = sum(r * min(1.0, 0.3 / float(n) ** 0.5) for r, n in zip(rows, truth, strict=True))
        worst = max(worst, float((out - total).norm() / total.norm()))
        worst = max(worst, float(((norms - truth).abs() / truth).max()))
    return worst, sums.brute_forced


@pytest.fixture(autouse=True)
def _same_weights():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("read", READS)
def test_results_of_packed_sequences(kind, read):
    worst, brute_forced = errors(build(kind, read))
    assert worst < 1e-6
    assert not brute_forced


OPTIONS = {
    "two layers": {"layers": 2},
    "both directions": {"both": True},
    "two layers in both directions": {"layers": 2, "both": True},
    "times first": {"batch_first": False, "both": True},
    "no bias": {"bias": False, "both": True},
    "large weights": {"factor": 30.0},
}


def in_pairs():
    """Each option with each kind and each precision; all three together are slow."""
    for row, options in enumerate(OPTIONS):
        for column, kind in enumerate(("lstm", "gru", "rnn")):
            for turn, dtype in enumerate((torch.float32, torch.float64)):
                often = (row + column + turn) % 2 == 0
                marks = () if often else pytest.mark.slow
                yield pytest.param(kind, options, dtype, marks=marks, id=f"{kind}-{options}-{dtype}")


@pytest.mark.parametrize(("kind", "options", "dtype"), list(in_pairs()))
def test_options_of_packed_layers(kind, options, dtype):
    for read in ("given state", "states"):
        worst, brute_forced = errors(build(kind, read, **OPTIONS[options]), dtype=dtype)
        large = options == "large weights" and dtype is torch.float32  # saturated gates round badly
        assert worst < (1e-3 if large else 1e-5)
        assert not brute_forced


@pytest.mark.parametrize("kind", KINDS)
def test_lots_of_one_length_and_of_one_step(kind):
    for longest in ((1, 1, 1), (2, 1, 2)):
        assert errors(build(kind, "given state", both=True), longest=longest)[0] < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_weights_of_packed_layers(kind):
    model = build(kind, "outputs", both=True)
    model.layer.weight_hh_l0.requires_grad_(False)
    model.before.requires_grad_(False)
    worst, brute_forced = errors(model)
    assert worst < 1e-6
    assert not brute_forced


def test_sequences_that_the_model_sorted_itself():
    """The rows of the layer are then in the model's own order, which brute force need not know."""

    def read(s, x, lengths):
        order = lengths.argsort(descending=True)
        packed = pack_padded_sequence(x[order], lengths[order], batch_first=True)
        _, (h, _) = s.layer(packed)
        return h[-1][order.argsort()]

    worst, _ = errors(Model(nn.LSTM(WIDTH, STATE, batch_first=True), read, STATE))
    assert worst < 1e-6


def is_seen(model):
    """Whether sums and norms are wrong, or refused, because the gradients of examples alone differ."""
    try:
        return errors(model)[0] > 1e-3
    except CrossExample:
        return True


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_mutation_states_that_move_on_behind_the_end(kind, monkeypatch):
    def forget(rows, gates, held):
        return gates.transpose(0, 1).contiguous()

    monkeypatch.setattr(packed_rows.PackedRows, "hold", forget)
    assert is_seen(build(kind, "states"))


def test_mutation_sequences_in_the_order_of_their_lengths(monkeypatch):
    build_rows = packed_rows.PackedRows.__init__

    def forget(rows, packed):
        build_rows(rows, PackedSequence(packed.data, packed.batch_sizes))

    monkeypatch.setattr(packed_rows.PackedRows, "__init__", forget)
    assert is_seen(build("lstm", "states"))
