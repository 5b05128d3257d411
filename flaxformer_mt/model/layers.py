"""The parts around attention: linear maps, embeddings, feed-forward network, residual wrapper."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from flaxformer_mt.model.dropout import Dropout, DropoutRows
from flaxformer_mt.model.matmul import Prepared, matmul, prepare, prepared_matmul

Norm = Literal["pre", "post"]
Activation = Literal["relu", "gelu", "silu", "geglu", "swiglu"]


def parameter(
    module: nn.Module,
    name: str,
    init: nn.initializers.Initializer,
    shape: tuple[int, ...],
    axes: tuple[str, ...],
) -> Array:
    """A float32 parameter of `module`; `axes` name its dimensions for the sharding rules."""
    given = module.get_variable("params", name)
    if given is not None and jnp.shape(found := nn.unbox(given)) == shape:
        return found
    # Makes it, or refuses what has another shape. It traces `init` each time to know the shape: a
    # third of the time in which a search is traced.
    return cast(Array, module.param(name, nn.with_logical_partitioning(init, axes), shape))


def in_dtype(params: Mapping[str, Any], dtype: DTypeLike) -> Mapping[str, Any]:
    """Parameters for a model that computes in this dtype, and is not trained.

    Matrices of `Linear` and `Embedding` are multiplied in the dtype of the model, wherever they are
    kept. Kept in it they take less memory, and no program converts them first. All else stays.
    """

    def convert(path: tuple[Any, ...], x: Array) -> Array:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        is_matrix = name.endswith(("/kernel", "_embedding/table"))
        return x.astype(dtype) if is_matrix else x

    return jax.tree_util.tree_map_with_path(convert, params)


PREPARED = "prepared"
"""The collection of matrices as `prepared_matmul` wants them, for speed, if there are any."""


def prepared(
    module: nn.Module, name: str, matrix: Callable[[], Float[Array, "K N"]]
) -> Prepared | None:
    """What `module` has of that name in the collection; puts it there if that is mutable."""
    if module.is_mutable_collection(PREPARED) and not module.is_initializing():
        module.put_variable(PREPARED, name, prepare(matrix()))
    return module.get_variable(PREPARED, name)


class Linear(nn.Module):
    """y = x W + b over the last axes of x, W in Xavier-uniform initialisation.

    `shape` is the shape of W and `axes` names its dimensions for sharding; the first
    `num_inputs` of them are contracted with the last axes of x. `init_scale` multiplies the
    variance of the initialisation. `fixed_bias` leaves b as it is in training.

    W may be `prepared`.
    """

    shape: tuple[int, ...]
    axes: tuple[str, ...]
    num_inputs: int = 1
    init_scale: float = 1.0
    use_bias: bool = True
    fixed_bias: bool = False
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        inputs = tuple(range(self.num_inputs))
        outputs = tuple(range(self.num_inputs, len(self.shape)))
        scale = self.init_scale
        xavier = nn.initializers.variance_scaling(scale, "fan_avg", "uniform", inputs, outputs)
        kernel = parameter(self, "kernel", xavier, self.shape, self.axes)
        x = x.astype(self.dtype)
        rows = (math.prod(self.shape[: self.num_inputs]), -1)
        ready = prepared(self, "kernel", lambda: kernel.astype(self.dtype).reshape(rows))
        if ready is not None:
            leading = x.shape[: x.ndim - self.num_inputs]
            y = prepared_matmul(x.reshape(*leading, -1), ready)
            y = y.reshape(*leading, *self.shape[self.num_inputs :])
        else:
            y = matmul(x, kernel.astype(self.dtype), inputs)
        if self.use_bias:
            shape, axes = self.shape[self.num_inputs :], self.axes[self.num_inputs :]
            bias = parameter(self, "bias", nn.initializers.zeros, shape, axes)
            y += jax.lax.stop_gradient(bias) if self.fixed_bias else bias
        return y.astype(self.dtype)


class Embedding(nn.Module):
    """Token vectors, used on the way in (`__call__`) and, when tied, on the way out (`logits`).

    Section 3.4: the same matrix serves both embeddings and the pre-softmax map, and on the way
    in is multiplied by sqrt(d_model), unless `scaled` is False.
    """

    vocab_size: int
    d_model: int
    scaled: bool = True
    dtype: DTypeLike = jnp.float32

    def setup(self) -> None:
        # Standard deviation d_model^-1/2: times sqrt(d_model) it has variance 1 on the way in,
        # and on the way out logits start with variance 1.
        init = nn.initializers.normal(self.d_model**-0.5)
        shape = (self.vocab_size, self.d_model)
        table = parameter(self, "table", init, shape, ("vocab", "embed"))
        # Once for all uses: their gradients are then added before devices add up theirs.
        self.narrow = table.astype(self.dtype)

    def __call__(self, tokens: Int[Array, "B T"]) -> Float[Array, "B T D"]:
        scale = self.d_model**0.5 if self.scaled else 1.0
        return self.narrow[tokens] * jnp.asarray(scale, self.dtype)

    def logits(self, x: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
        """X E^T, accumulated and returned in float32; E^T may be `prepared`."""
        ready = prepared(self, "table", lambda: self.narrow.T)
        if ready is not None:
            return prepared_matmul(x.astype(self.dtype), ready, jnp.float32)
        return matmul(x.astype(self.dtype), self.narrow, (1,), jnp.float32)


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W1 + b1) W2 + b2 (equation 2), at every position alike."""

    d_ff: int
    activation: Callable[[Array], Array] = nn.relu
    use_bias: bool = True
    dropout: float = 0.0
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(
        self, x: Float[Array, "B T D"], *, dropout_rows: DropoutRows
    ) -> Float[Array, "B T D"]:
        d_model = x.shape[-1]
        x = self.inner(x)  # [B T F]
        x = Dropout(self.dropout)(x, dropout_rows=dropout_rows)
        return self.linear((self.d_ff, d_model), ("mlp", "embed"), "out")(x)

    def inner(self, x: Float[Array, "B T D"]) -> Float[Array, "B T F"]:
        """What lies between the two linear maps of the equation."""
        return self.activation(self.linear((x.shape[-1], self.d_ff), ("embed", "mlp"), "in")(x))

    def linear(self, shape: tuple[int, ...], axes: tuple[str, ...], name: str) -> Linear:
        """One of the network's linear maps."""
        return Linear(shape, axes, use_bias=self.use_bias, dtype=self.dtype, name=name)


class GatedFeedForward(FeedForward):
    """FFN(x) = (activation(x W) * x V) W2: a gated linear unit (Shazeer 2020, equation 6).

    Three matrices where the paper has two: with 2/3 of the width it costs the same.
    """

    def inner(self, x: Float[Array, "B T D"]) -> Float[Array, "B T F"]:
        shape, axes = (x.shape[-1], self.d_ff), ("embed", "mlp")
        gate = self.activation(self.linear(shape, axes, "gate")(x))
        return gate * self.linear(shape, axes, "in")(x)


_exact_gelu = functools.partial(nn.gelu, approximate=False)
_FEED_FORWARD: dict[Activation, tuple[type[FeedForward], Callable[[Array], Array]]] = {
    "relu": (FeedForward, nn.relu),
    "gelu": (FeedForward, _exact_gelu),
    "silu": (FeedForward, nn.silu),
    "geglu": (GatedFeedForward, _exact_gelu),
    "swiglu": (GatedFeedForward, nn.silu),
}


def make_feed_forward(
    kind: Activation, d_ff: int, *, use_bias: bool, dropout: float, dtype: DTypeLike
) -> FeedForward:
    """The feed-forward network with the activation of that name."""
    network, activation = _FEED_FORWARD[kind]
    return network(d_ff, activation, use_bias, dropout, dtype)


class LayerNorm(nn.Module):
    """Layer normalisation (Ba et al. 2016) computed in float32, returned in the dtype of x."""

    epsilon: float = 1e-6

    @nn.compact
    def __call__(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        scale = parameter(self, "scale", nn.initializers.ones, x.shape[-1:], ("embed",))
        bias = parameter(self, "bias", nn.initializers.zeros, x.shape[-1:], ("embed",))
        wide = x.astype(jnp.float32)
        centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
        variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
        y = centred * jax.lax.rsqrt(variance + self.epsilon)
        return (y * scale + bias).astype(x.dtype)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2)) * scale (Zhang and Sennrich 2019), in float32: no mean, no bias."""

    epsilon: float = 1e-6

    @nn.compact
    def __call__(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        scale = parameter(self, "scale", nn.initializers.ones, x.shape[-1:], ("embed",))
        wide = x.astype(jnp.float32)
        mean_square = jnp.mean(wide * wide, axis=-1, keepdims=True)
        return (wide * jax.lax.rsqrt(mean_square + self.epsilon) * scale).astype(x.dtype)


class Identity(nn.Module):
    """Where one order of normalisation has a norm and the other has none."""

    def __call__(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        return x


class Residual(nn.Module):
    """The wrapper around every sub-layer (section 3.1): norm(x + dropout(sublayer(x))).

    A sub-layer is used as `x = residual.after(x, sublayer(residual.before(x)))`.
    """

    make_norm: Callable[[], nn.Module]
    dropout: float

    def setup(self) -> None:
        self.layer_norm = self.make_norm()
        self.drop = Dropout(self.dropout)

    def before(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        """What the sub-layer reads."""
        return x

    def after(
        self, x: Float[Array, "B T D"], y: Float[Array, "B T D"], *, dropout_rows: DropoutRows
    ) -> Float[Array, "B T D"]:
        """The sub-layer's output y brought back to the residual stream x."""
        return self.layer_norm(x + self.drop(y, dropout_rows=dropout_rows))


class PreNormResidual(Residual):
    """The other order: x + dropout(sublayer(norm(x))). Sums are normalised once, at the end."""

    def before(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        return self.layer_norm(x)

    def after(
        self, x: Float[Array, "B T D"], y: Float[Array, "B T D"], *, dropout_rows: DropoutRows
    ) -> Float[Array, "B T D"]:
        return x + self.drop(y, dropout_rows=dropout_rows)
