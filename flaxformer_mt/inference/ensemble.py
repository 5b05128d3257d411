"""One Transformer, or an ensemble, as a `DecodeStep`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from flaxformer_mt.model.cache import Cache, Source, empty_cache
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.search.step import DecodeStep

Params = Mapping[str, Any]


@flax.struct.dataclass
class EnsembleCache:
    """The caches of all members, and the attention that each source position has received."""

    members: tuple[Cache, ...]
    coverage: Float[Array, "B K S"] | None
    """The mean of all heads and layers, summed over tokens; None without coverage penalty."""

    def replace_rows(self, rows: Int[Array, " n"], sources: tuple[Source, ...]) -> "EnsembleCache":
        """Returns the cache with new sentences in these rows (see `Cache.replace_rows`)."""
        members = zip(self.members, sources, strict=True)
        coverage = self.coverage
        if coverage is not None:
            coverage = coverage.at[rows].set(0, mode="drop")
        return EnsembleCache(tuple(old.replace_rows(rows, new) for old, new in members), coverage)

    def select(self, parents: Int[Array, "B K"]) -> "EnsembleCache":
        """Returns the cache in which hypotheses continue `parents` (see `Cache.select`)."""
        coverage = self.coverage
        if coverage is not None:
            coverage = jnp.take_along_axis(coverage, parents[..., None], axis=1)
        return EnsembleCache(tuple(cache.select(parents) for cache in self.members), coverage)


def encode_sources(
    models: tuple[Transformer, ...],
    params: Sequence[Params],
    inputs: Int[Array, "B S"],
    inputs_positions: Int[Array, "B S"],
    inputs_segment_ids: Int[Array, "B S"],
) -> tuple[Source, ...]:
    """Returns each member's keys and values of the sources."""
    sources: Any = (
        model.apply(
            {"params": member_params},
            inputs,
            inputs_positions,
            inputs_segment_ids,
            method="encode_source",
        )
        for model, member_params in zip(models, params, strict=True)
    )
    return tuple(sources)


def empty_ensemble_cache(
    models: Sequence[Transformer],
    sources: Sequence[Source],
    *,
    batch: int,
    beam_size: int,
    max_target_length: int,
    with_coverage: bool,
) -> EnsembleCache:
    """Returns a cache of `batch` empty rows; `sources` give shapes only (see `empty_cache`)."""
    members = tuple(
        empty_cache(
            source,
            model.kernels,
            batch=batch,
            beam_size=beam_size,
            max_target_length=max_target_length,
        )
        for model, source in zip(models, sources, strict=True)
    )
    coverage = jnp.zeros((batch, beam_size, sources[0].mask.shape[1]), jnp.float32)
    return EnsembleCache(members, coverage if with_coverage else None)


def ensemble_step(
    models: Sequence[Transformer],
    params: Sequence[Params],
    weights: Float[Array, " n"] | None,
    *,
    with_coverage: bool = False,
) -> DecodeStep:
    """Returns the step of all members; `weights` as in `combine`."""
    # Recording attention weights prevents fused kernels.
    mutable = ["intermediates"] if with_coverage else []

    def step(tokens: Int[Array, "B K"], cache: Any) -> tuple[Float[Array, "B K V"], EnsembleCache]:
        outputs = [
            model.apply(
                {"params": member_params}, tokens, member, method="decode_step", mutable=mutable
            )
            for model, member_params, member in zip(models, params, cache.members, strict=True)
        ]
        logits = [logits for (logits, _), _ in outputs]
        members = tuple(member for (_, member), _ in outputs)
        coverage = cache.coverage
        if with_coverage:
            attention = [source_attention(sown["intermediates"]) for _, sown in outputs]
            coverage = coverage + jnp.mean(jnp.stack(attention), axis=0)
        return combine(logits, weights), EnsembleCache(members, coverage)

    return step


def combine(
    logits: Sequence[Float[Array, "B T V"]], weights: Float[Array, " n"] | None
) -> Float[Array, "B T V"]:
    """Returns the logits of the weighted mean of the members' probabilities.

    The logits of a single member are returned unchanged.
    """
    if len(logits) == 1:
        return logits[0]
    log_probs = jnp.stack([jax.nn.log_softmax(x.astype(jnp.float32)) for x in logits], -1)
    assert weights is not None
    return jax.nn.logsumexp(log_probs + jnp.log(weights), axis=-1)


def source_attention(sown: Mapping[str, Any]) -> Float[Array, "B T S"]:
    """Returns the mean source attention of all heads and layers, from the recorded weights."""
    layers = [
        layer["source_attention"]["weights"][0]
        for name, layer in sown.items()
        if name.startswith("decoder_") and "source_attention" in layer
    ]
    return jnp.mean(jnp.stack(layers), axis=(0, 2))


def coverage_bonus(strength: Float[Array, ""]) -> Callable[[EnsembleCache], Float[Array, "B K"]]:
    """Returns the coverage penalty of Wu et al. 2016, equation 14, as a bonus of at most 0.

    cp = beta * sum over source positions of log min(coverage, 1). A position without any attention
    counts as 1e-6, because the logarithm of 0 would exclude the translation.
    """

    def bonus(cache: EnsembleCache) -> Float[Array, "B K"]:
        assert cache.coverage is not None
        logs = jnp.log(jnp.clip(cache.coverage, 1e-6, 1.0))
        source_mask = cache.members[0].source_mask[:, None]  # [B 1 S]
        return strength * jnp.sum(jnp.where(source_mask, logs, 0.0), axis=-1)

    return bonus


def params_in_dtype(params: Params, dtype: DTypeLike) -> Params:
    """Returns parameters for inference in `dtype`: matrices are stored in it, the rest is kept.

    So they take less memory, and no program converts them.
    """

    def convert(path: tuple[Any, ...], x: Array) -> Array:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        is_matrix = name.endswith(("/kernel", "_embedding/table"))
        return x.astype(dtype) if is_matrix else x

    return jax.tree_util.tree_map_with_path(convert, params)
