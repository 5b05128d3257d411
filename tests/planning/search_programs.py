"""The search of a model as programs for abstract arguments, to be compiled for TPUs."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from flaxformer_mt.inference.ensemble import empty_ensemble_cache, encode_sources, ensemble_step
from flaxformer_mt.inference.programs import SearchInputs, SearchProgram, make_search, search_batch
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.planning.memory import Program
from flaxformer_mt.runtime.sharding import make_mesh, replicated
from flaxformer_mt.search.loop import SearchSettings, SentenceOptions
from flaxformer_mt.translation.config import DecodingConfig


class SearchPrograms(NamedTuple):
    """Beam search (or greedy search) on one device that holds all parameters."""

    search: Program
    """The whole search of a batch."""
    encoder: Program
    """Encodes all sources of the batch."""
    token: Program
    """Decodes one token of every hypothesis."""


def search_programs(
    config: DecodingConfig, model: Transformer, device: Any, rows: int, length: int
) -> SearchPrograms:
    """Returns the search of `rows` sentences of `length` source tokens, compiled for `device`."""
    program = SearchProgram(
        models=(model,),
        beam_size=1 if config.is_sampling else config.beam_size,
        num_hypotheses=1 if config.is_sampling else config.num_hypotheses,
        batch_slots=rows,
        early_stopping=config.early_stopping,
    )
    max_target_length = config.length_limit(length)
    trees: list[Any] = []

    def inputs_of(limits: Any, suppressed: Any, penalty: Any) -> SearchInputs:
        settings = SearchSettings(
            suppressed,
            penalty,
            bos_id=model.bos_id,
            eos_id=model.bos_id + 1,
            pad_id=0,
            max_target_length=max_target_length,
            length_normalization=config.length_normalization,
            forced_end=config.forced_end,
            renormalize=config.renormalize,
        )
        return SearchInputs(SentenceOptions(limits), settings)

    def search(params: Any, tokens: Any, *settings: Any) -> Any:
        inputs = inputs_of(*settings)
        return search_batch((params,), tokens, tokens, tokens, inputs, program=program)

    def encode(params: Any, tokens: Any) -> Any:
        return encode_sources(program.models, (params,), tokens, tokens, tokens)

    # States are lists of their leaves here: the dataclasses in them check that fields are arrays.
    def start(sources: Any, *settings: Any) -> list[Any]:
        inputs = inputs_of(*settings)
        cache = empty_ensemble_cache(
            program.models,
            sources,
            batch=rows,
            beam_size=program.beam_size,
            max_target_length=max_target_length,
            with_coverage=False,
        )
        state = make_search(program, inputs, inputs.each).start(inputs.each)
        leaves, tree = jax.tree.flatten(state._replace(cache=cache))
        trees.append(tree)
        return leaves

    def decode_token(leaves: list[Any], params: Any, *settings: Any) -> list[Any]:
        inputs, state = inputs_of(*settings), jax.tree.unflatten(trees[0], leaves)
        step = ensemble_step(program.models, (params,), None, with_coverage=False)
        search = make_search(program, inputs, inputs.each)
        return jax.tree.leaves(search.advance(step, inputs.each, state))

    tokens = jax.ShapeDtypeStruct((rows, length), jnp.int32)
    settings = (
        jax.ShapeDtypeStruct((rows,), jnp.int32),
        jax.ShapeDtypeStruct((model.target_vocab_size,), jnp.bool_),
        jax.ShapeDtypeStruct((), jnp.float32),
    )
    params = jax.eval_shape(lambda: init_params(model, jax.random.key(0)))
    state = jax.eval_shape(start, jax.eval_shape(encode, params, tokens), *settings)
    sharding = replicated(make_mesh(devices=[device]))
    params, tokens, settings, state = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
        (params, tokens, settings, state),
    )
    return SearchPrograms(
        (jax.jit(search), (params, tokens, *settings)),
        (jax.jit(encode), (params, tokens)),
        (jax.jit(decode_token, donate_argnums=0), (state, params, *settings)),
    )
