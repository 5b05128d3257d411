"""The parts around attention: linear maps, embeddings, feed-forward network, norms, residuals."""

import functools
from collections.abc import Callable
from typing import cast

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from flaxformer_mt.model.config import Activation, TransformerConfig
from flaxformer_mt.model.kernels import REFERENCE, DropoutRows, Kernels


def parameter(
    module: nn.Module,
    name: str,
    init: nn.initializers.Initializer,
    shape: tuple[int, ...],
    axes: tuple[str, ...],
) -> Array:
    """Returns a float32 parameter of `module`.

    The sharding rules map `axes`, a name for each dimension, to the device mesh.
    """
    return cast(Array, module.param(name, nn.with_logical_partitioning(init, axes), shape))


class Dropout(nn.Module):
    """Dropout with its own random key for every layer and every step."""

    rate: float
    kernels: Kernels = REFERENCE

    @nn.compact
    def __call__(
        self, x: Float[Array, "B ..."], *, dropout_rows: DropoutRows
    ) -> Float[Array, "B ..."]:
        if dropout_rows is None or self.rate == 0.0:
            return x
        return self.kernels.dropout(x, self.rate, self.make_rng("dropout"), dropout_rows)


class Linear(nn.Module):
    """y = x W + b over the last axes of x, W in Xavier-uniform initialisation.

    Attributes:
      shape: of W.
      axes: a name for each dimension of W, for sharding.
      num_inputs: how many of the first dimensions of W are contracted with the last ones of x.
      init_scale: multiplies the variance of the initialisation.
      use_bias: whether there is a b.
      fixed_bias: keep b as it is in training.
      dtype: of the product; parameters are float32.
      result_dtype: of the result; None = dtype.
    """

    shape: tuple[int, ...]
    axes: tuple[str, ...]
    num_inputs: int = 1
    init_scale: float = 1.0
    use_bias: bool = True
    fixed_bias: bool = False
    dtype: DTypeLike = jnp.float32
    result_dtype: DTypeLike | None = None
    kernels: Kernels = REFERENCE

    @nn.compact
    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        inputs = tuple(range(self.num_inputs))
        outputs = tuple(range(self.num_inputs, len(self.shape)))
        xavier = nn.initializers.variance_scaling(
            self.init_scale, "fan_avg", "uniform", inputs, outputs
        )
        kernel = parameter(self, "kernel", xavier, self.shape, self.axes).astype(self.dtype)
        result_dtype = self.result_dtype or self.dtype
        y = self.kernels.product(x.astype(self.dtype), kernel, inputs, result_dtype)
        if self.use_bias:
            shape, axes = self.shape[self.num_inputs :], self.axes[self.num_inputs :]
            bias = parameter(self, "bias", nn.initializers.zeros, shape, axes)
            y += jax.lax.stop_gradient(bias) if self.fixed_bias else bias
        return y.astype(result_dtype)


class Embedding(nn.Module):
    """Token vectors, used for the input (`__call__`) and, when tied, for the output (`logits`).

    Section 3.4: one matrix serves both embeddings and the pre-softmax map. For the input it is
    multiplied by sqrt(d_model), unless the config says otherwise.
    """

    config: TransformerConfig
    vocab_size: int
    kernels: Kernels = REFERENCE

    def setup(self) -> None:
        d_model = self.config.d_model
        # Standard deviation d_model^-1/2: after scaling by sqrt(d_model) the input has variance 1,
        # and so have the initial logits.
        init = nn.initializers.normal(d_model**-0.5)
        table = parameter(self, "table", init, (self.vocab_size, d_model), ("vocab", "embed"))
        # Converted once for all uses, so that devices sum one gradient.
        self.table = table.astype(self.config.dtype)

    def __call__(self, tokens: Int[Array, "B T"]) -> Float[Array, "B T D"]:
        """Returns the vectors of the tokens."""
        scale = self.config.d_model**0.5 if self.config.scale_embeddings else 1.0
        return self.kernels.embed(self.table, tokens) * jnp.asarray(scale, self.table.dtype)

    def logits(self, x: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
        """Returns x E^T in float32."""
        return self.kernels.product(x.astype(self.table.dtype), self.table, (1,), jnp.float32)


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W1 + b1) W2 + b2 (equation 2), at each position separately.

    A gated linear unit is (activation(x W) * x V) W2 (Shazeer 2020, equation 6). It has three
    matrices instead of two. With 2/3 of the width it costs the same.
    """

    config: TransformerConfig
    kernels: Kernels = REFERENCE

    @nn.compact
    def __call__(
        self, x: Float[Array, "B T D"], *, dropout_rows: DropoutRows
    ) -> Float[Array, "B T D"]:
        config = self.config
        linear = functools.partial(
            Linear, use_bias=config.use_bias, dtype=config.dtype, kernels=self.kernels
        )
        widen = functools.partial(linear, (config.d_model, config.d_ff), ("embed", "mlp"))
        activation, is_gated = ACTIVATIONS[config.activation]
        if is_gated:
            x = activation(widen(name="gate")(x)) * widen(name="in")(x)  # [B T F]
        else:
            x = activation(widen(name="in")(x))  # [B T F]
        x = Dropout(config.activation_dropout, self.kernels)(x, dropout_rows=dropout_rows)
        return linear((config.d_ff, config.d_model), ("mlp", "embed"), name="out")(x)


_exact_gelu = functools.partial(nn.gelu, approximate=False)
ACTIVATIONS: dict[Activation, tuple[Callable[[Array], Array], bool]] = {
    "relu": (nn.relu, False),
    "gelu": (_exact_gelu, False),
    "silu": (nn.silu, False),
    "geglu": (_exact_gelu, True),
    "swiglu": (nn.silu, True),
}
"""The function, and whether it gates a second linear map."""


class LayerNorm(nn.Module):
    """Layer normalisation (Ba et al. 2016), computed in float32 and returned in the dtype of x."""

    epsilon: float = 1e-6

    @nn.compact
    def __call__(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        scale = parameter(self, "scale", nn.initializers.ones, x.shape[-1:], ("embed",))
        bias = parameter(self, "bias", nn.initializers.zeros, x.shape[-1:], ("embed",))
        x32 = x.astype(jnp.float32)
        centred = x32 - jnp.mean(x32, axis=-1, keepdims=True)
        variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
        y = centred * jax.lax.rsqrt(variance + self.epsilon)
        return (y * scale + bias).astype(x.dtype)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2)) * scale (Zhang and Sennrich 2019), in float32: no mean, no bias."""

    epsilon: float = 1e-6

    @nn.compact
    def __call__(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        scale = parameter(self, "scale", nn.initializers.ones, x.shape[-1:], ("embed",))
        x32 = x.astype(jnp.float32)
        mean_square = jnp.mean(x32 * x32, axis=-1, keepdims=True)
        return (x32 * jax.lax.rsqrt(mean_square + self.epsilon) * scale).astype(x.dtype)


class Identity(nn.Module):
    """Returns its input. Post-norm uses it where pre-norm has its final norm."""

    def __call__(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        return x


def norm(config: TransformerConfig) -> nn.Module:
    """Returns the norm of a sub-layer."""
    return {"layer": LayerNorm, "rms": RMSNorm}[config.norm_type](config.norm_epsilon)


def final_norm(config: TransformerConfig) -> nn.Module:
    """Returns the norm after the last layer. Only pre-norm needs one: no sub-layer follows."""
    return norm(config) if config.norm == "pre" else Identity()


class Residual(nn.Module):
    """The wrapper around every sub-layer (section 3.1): norm(x + dropout(sublayer(x))).

    Use it as `x = residual.after(x, sublayer(residual.before(x)))`.
    """

    config: TransformerConfig
    kernels: Kernels = REFERENCE

    def setup(self) -> None:
        self.layer_norm = norm(self.config)
        self.drop = Dropout(self.config.dropout, self.kernels)

    def before(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        """Returns the input of the sub-layer."""
        return x

    def after(
        self, x: Float[Array, "B T D"], y: Float[Array, "B T D"], *, dropout_rows: DropoutRows
    ) -> Float[Array, "B T D"]:
        """Returns the residual stream x with the output y of the sub-layer added."""
        return self.layer_norm(x + self.drop(y, dropout_rows=dropout_rows))


class PreNormResidual(Residual):
    """The other order: x + dropout(sublayer(norm(x))). A last norm follows the whole stack."""

    def before(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        """Returns norm(x)."""
        return self.layer_norm(x)

    def after(
        self, x: Float[Array, "B T D"], y: Float[Array, "B T D"], *, dropout_rows: DropoutRows
    ) -> Float[Array, "B T D"]:
        """Returns x + dropout(y)."""
        return x + self.drop(y, dropout_rows=dropout_rows)


def residual(config: TransformerConfig, kernels: Kernels) -> Residual:
    """Returns the residual connection around a sub-layer."""
    return {"post": Residual, "pre": PreNormResidual}[config.norm](config, kernels)
