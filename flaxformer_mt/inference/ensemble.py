"""Transformers as the search sees them: one, or several that vote on every token."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from flaxformer_mt.model.attention import sum_of_each
from flaxformer_mt.model.cache import Cache, Source, start_cache
from flaxformer_mt.model.layers import PREPARED
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.search.step import DecodeStep

Params = Mapping[str, Any]


@flax.struct.dataclass
class EnsembleCache:
    """The caches of all members, and the attention that the source has had so far."""

    members: tuple[Cache, ...]
    coverage: Float[Array, "B K S"] | None
    """Summed over the target tokens, the mean of all heads and layers; None if nobody asks."""

    def restart(self, places: Int[Array, " n"], sources: tuple[Source, ...]) -> "EnsembleCache":
        """As `Cache.restart`, with the source as each member knows it."""
        members = zip(self.members, sources, strict=True)
        coverage = self.coverage
        if coverage is not None:
            coverage = coverage.at[places].set(0, mode="drop")
        return EnsembleCache(tuple(old.restart(places, new) for old, new in members), coverage)

    def select(self, parents: Int[Array, "B K"]) -> "EnsembleCache":
        """As `Cache.select`."""
        coverage = self.coverage
        if coverage is not None:
            coverage = jnp.take_along_axis(coverage, parents[..., None], axis=1)
        return EnsembleCache(tuple(cache.select(parents) for cache in self.members), coverage)


@functools.partial(jax.jit, static_argnames=("models", "frugal"))
def read_sources(
    models: tuple[Transformer, ...],
    params: Sequence[Params],
    inputs: Int[Array, "B S"],
    inputs_positions: Int[Array, "B S"],
    inputs_segment_ids: Int[Array, "B S"],
    *,
    frugal: bool = False,
) -> tuple[Source, ...]:
    """What each member knows of the sources; `frugal` as in `Transformer.project_source`."""
    sources = []
    for model, of_model in zip(models, params, strict=True):
        read = functools.partial(model.apply, {"params": of_model})
        memory = read(inputs, inputs_positions, inputs_segment_ids, method="encode")
        mask = inputs_segment_ids != 0
        sources.append(read(memory, mask, frugal=frugal, method="project_source"))
    return tuple(sources)


def start_ensemble(
    sources: Sequence[Source],
    *,
    beam_size: int,
    max_target_length: int,
    with_coverage: bool,
    frugal: bool = False,
) -> EnsembleCache:
    """Every member has read the source, and written nothing; `frugal` as in `start_cache`."""
    members = tuple(
        start_cache(source, beam_size=beam_size, max_target_length=max_target_length, frugal=frugal)
        for source in sources
    )
    batch, _, _, length = sources[0].mask.shape
    nothing = jnp.zeros((batch, beam_size, length), jnp.float32)
    return EnsembleCache(members, nothing if with_coverage else None)


def ensemble_step(
    models: Sequence[Transformer],
    params: Sequence[Params],
    weights: Float[Array, " n"] | None,
    prepared: Sequence[Params] | None = None,
) -> DecodeStep:
    """One step of all members; `weights` as in `combine`, `prepared` from `prepare_kernels`."""
    kernels = prepared or [{} for _ in models]

    def step(tokens: Int[Array, "B K"], cache: Any) -> tuple[Float[Array, "B K V"], EnsembleCache]:
        logits, caches, looked = [], [], []
        members = zip(models, params, kernels, cache.members, strict=True)
        for model, of_model, of_kernels, old in members:
            (of_member, new), sown = model.apply(
                {"params": of_model, PREPARED: of_kernels},
                tokens,
                old,
                method="decode_step",
                mutable=["intermediates"],
            )
            logits.append(of_member)
            caches.append(new)
            looked.append(source_attention(sown["intermediates"]))
        coverage = cache.coverage
        if coverage is not None:
            coverage = coverage + jnp.mean(jnp.stack(looked), axis=0)
        return combine(logits, weights), EnsembleCache(tuple(caches), coverage)

    return step


def prepare_kernels(
    models: Sequence[Transformer], params: Sequence[Params], sources: Sequence[Source]
) -> list[Params]:
    """The kernels that `ensemble_step` multiplies with, as `layers.prepared` keeps them."""

    def of_member(model: Transformer, of_model: Params, source: Source) -> Params:
        # Of the smallest step, which nobody takes.
        one = jax.tree.map(lambda x: x[:1], source)
        cache = start_cache(one, beam_size=1, max_target_length=1)
        tokens = jnp.zeros((1, 1), jnp.int32)
        _, made = model.apply(
            {"params": of_model}, tokens, cache, method="decode_step", mutable=[PREPARED]
        )
        return made[PREPARED]

    return [of_member(*one) for one in zip(models, params, sources, strict=True)]


def combine(
    logits: Sequence[Float[Array, "B T V"]], weights: Float[Array, " n"] | None
) -> Float[Array, "B T V"]:
    """Logits of the weighted mean of the members' probabilities; those of one alone as they are."""
    if len(logits) == 1:
        return logits[0]
    log_probs = jnp.stack([jax.nn.log_softmax(x.astype(jnp.float32)) for x in logits], -1)
    assert weights is not None
    return jax.nn.logsumexp(log_probs + jnp.log(weights), axis=-1)


def source_attention(sown: Mapping[str, Any]) -> Float[Array, "B T S"]:
    """From what the decoder's layers sow: the mean of the heads and layers of source attention."""
    layers = [
        of_layer["source_attention"]["weights"][0]
        for name, of_layer in sown.items()
        if name.startswith("decoder_") and "source_attention" in of_layer
    ]
    return jnp.mean(jnp.stack(layers), axis=(0, 2))


def coverage_bonus(
    strength: Float[Array, ""],
) -> Callable[[EnsembleCache], Float[Array, "B K"]]:
    """cp(X; Y) = beta * sum over the source of log min(coverage, 1): at most 0.

    Wu et al. 2016, equation 14. What was never looked at at all counts as 1e-6, not as 0, whose
    logarithm would rule a translation out.
    """

    def bonus(cache: EnsembleCache) -> Float[Array, "B K"]:
        assert cache.coverage is not None
        logs = jnp.log(jnp.clip(cache.coverage, 1e-6, 1.0))
        source_mask = cache.members[0].source_mask[:, 0]  # [B 1 S]
        return strength * sum_of_each(jnp.where(source_mask, logs, 0.0))[..., 0]

    return bonus
