"""The same models in JAX, with torch's names and layouts of weights, and their private step: by hand, and by jax-privacy.

Images are channels-last, which XLA likes on processors. Everything is one compiled function that gives its weights away.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from catalogue import TASKS
from contestants import Contestant, Setting
from jax import lax
from models import CIFAR

Weights = dict[str, Any]
Model = Callable[[Weights, Any], Any]


def _linear(w: Weights, name: str, x: Any) -> Any:
    y = x @ w[f"{name}weight"].T
    return y + w[f"{name}bias"] if f"{name}bias" in w else y


def _mlp(layers: int, w: Weights, x: Any) -> Any:
    for place in range(layers):
        x = _linear(w, f"{2 * place}.", x if place == 0 else jax.nn.relu(x))
    return x


def _convolution(w: Weights, name: str, x: Any, stride: int, padding: int) -> Any:
    edges = [(padding, padding)] * 2
    y = lax.conv_general_dilated(
        x, w[f"{name}.weight"], (stride, stride), edges, dimension_numbers=("NHWC", "OIHW", "NHWC")
    )
    return y + w[f"{name}.bias"]


def _mnist(w: Weights, x: Any) -> Any:
    for name, stride, padding in (("0", 2, 3), ("3", 2, 0)):
        x = jax.nn.relu(_convolution(w, name, x, stride, padding))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 1, 1, 1), "VALID")
    x = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
    return _linear(w, "9.", jax.nn.relu(_linear(w, "7.", x)))


def _cifar(w: Weights, x: Any) -> Any:
    place = 0
    for _, pools in CIFAR:
        x = jax.nn.relu(_convolution(w, str(place), x, 1, 1))
        place += 2 + pools
        if pools:
            batch, height, width, channels = x.shape
            x = x.reshape(batch, height // 2, 2, width // 2, 2, channels).mean((2, 4))
    return _convolution(w, str(place), x, 1, 1).mean((1, 2))


def _bag(w: Weights, ids: Any) -> Any:
    return _linear(w, "b.", jax.nn.relu(_linear(w, "a.", w["table.weight"][ids].mean(1))))


def _lstm(w: Weights, ids: Any) -> Any:
    x = w["table.weight"][ids] @ w["rnn.weight_ih_l0"].T + w["rnn.bias_ih_l0"] + w["rnn.bias_hh_l0"]

    def cell(state: tuple[Any, Any], gates: Any) -> tuple[tuple[Any, Any], None]:
        hidden, memory = state
        i, f, g, o = jnp.split(gates + hidden @ w["rnn.weight_hh_l0"].T, 4, axis=-1)
        memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(memory), memory), None

    zeros = jnp.zeros((len(ids), w["rnn.weight_hh_l0"].shape[1]))
    (hidden, _), _ = lax.scan(cell, (zeros, zeros), x.transpose(1, 0, 2))
    return _linear(w, "head.", hidden)


def _norm(w: Weights, name: str, x: Any) -> Any:
    x = x - x.mean(-1, keepdims=True)
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[f"{name}weight"] + w[f"{name}bias"]


def _gpt(w: Weights, ids: Any, heads: int = 4, layers: int = 4) -> Any:
    batch, length = ids.shape
    x = w["tokens.weight"][ids] + w["positions.weight"][:length]
    seen = jnp.tril(jnp.ones((length, length), bool))
    for place in range(layers):
        name = f"blocks.{place}."
        parts = _linear(w, f"{name}qkv.", _norm(w, f"{name}first.", x)).reshape(batch, length, 3, heads, -1)
        q, k, v = parts.transpose(2, 0, 3, 1, 4)
        scores = jnp.where(seen, q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), -jnp.inf)
        y = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(batch, length, -1)
        x = x + _linear(w, f"{name}out.", y)
        up = jax.nn.gelu(_linear(w, f"{name}up.", _norm(w, f"{name}second.", x)), approximate=False)
        x = x + _linear(w, f"{name}down.", up)
    return _linear(w, "head.", _norm(w, "norm.", x))


MODELS: dict[str, Model] = {
    "logistic": lambda w, x: _linear(w, "", x),
    "mlp-50": partial(_mlp, 2),
    "mlp-1024": partial(_mlp, 4),
    "mnist-cnn": _mnist,
    "cifar-cnn": _cifar,
    "embedding": _bag,
    "lstm": _lstm,
    "gpt": _gpt,
}


class InJax(Contestant):
    def __init__(self, setting: Setting, *, library: bool) -> None:
        task = setting.task
        model = MODELS[next(name for name, known in TASKS.items() if known is task)]
        inputs, targets = setting.inputs.numpy(), setting.targets.numpy().astype(np.int32)
        if task.images:
            inputs = np.ascontiguousarray(inputs.transpose(0, 2, 3, 1))
        elif inputs.dtype == np.int64:
            inputs = inputs.astype(np.int32)
        self.data = jnp.asarray(inputs), jnp.asarray(targets)
        self.state = {name: jnp.array(value.numpy()) for name, value in task.model().state_dict().items()}
        self.key = jax.random.key(0)

        def loss(weights: Weights, x: Any, y: Any) -> Any:
            logs = jax.nn.log_softmax(model(weights, x[None]))[0]
            return -jnp.take_along_axis(logs, y[..., None], -1).mean()

        total = _with_jax_privacy(loss, setting) if library else _by_hand(loss, setting)
        pace = setting.rate / setting.lot

        def step(weights: Weights, key: Any, x: Any, y: Any) -> tuple[Weights, Any]:
            key, fresh = jax.random.split(key)
            noisy = total(weights, fresh, x, y)
            return jax.tree.map(lambda w, g: w - pace * g, weights, noisy), key

        compiled = jax.jit(step, donate_argnums=0)
        self.compiled = compiled.lower(self.state, self.key, *self.data).compile()

    def step(self) -> None:
        self.state, self.key = self.compiled(self.state, self.key, *self.data)
        jax.block_until_ready(self.state)

    def weights(self) -> dict[str, np.ndarray]:
        return {name: np.array(value) for name, value in self.state.items()}


def _by_hand(loss: Callable[..., Any], setting: Setting) -> Callable[..., Weights]:
    def total(weights: Weights, key: Any, x: Any, y: Any) -> Weights:
        found = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(weights, x, y)
        squares = sum((g.reshape(len(g), -1) ** 2).sum(1) for g in found.values())
        factors = jnp.minimum(1.0, setting.bound / jnp.sqrt(squares))
        deviation = setting.multiplier * setting.bound
        keys = dict(zip(found, jax.random.split(key, len(found)), strict=True))
        return {
            name: jnp.tensordot(factors, g, 1) + deviation * jax.random.normal(keys[name], g.shape[1:])
            for name, g in found.items()
        }

    return total


def _with_jax_privacy(loss: Callable[..., Any], setting: Setting) -> Callable[..., Weights]:
    from jax_privacy import clipping, noise_addition

    clipped = clipping.clipped_grad(
        loss, l2_clip_norm=setting.bound, batch_argnums=(1, 2), keep_batch_dim=False
    )

    def total(weights: Weights, key: Any, x: Any, y: Any) -> Weights:
        deviation = setting.multiplier * setting.bound
        privatizer = noise_addition.gaussian_privatizer(stddev=deviation, prng_key=key)
        found = clipped(weights, x, y)
        return privatizer.update(found, privatizer.init(weights))[0]

    return total
