"""The programs of a recipe: the training step and the search, for abstract arguments."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from flaxformer_mt.config import Config
from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.inference.ensemble import encode_sources
from flaxformer_mt.inference.programs import SearchInputs, SearchProgram, search_batch
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.batch_partition import ProcessRows
from flaxformer_mt.runtime.sharding import BatchPlacement, make_mesh, num_shards, replicated
from flaxformer_mt.search.loop import SentenceOptions
from flaxformer_mt.training.adapting import Adaptation
from flaxformer_mt.training.state import TrainState, abstract_state, init_state
from flaxformer_mt.training.step import make_train_step
from flaxformer_mt.translation.config import DecodingConfig

Program = tuple[Any, tuple[Any, ...]]
"""A jitted function, and the shapes and shardings of its arguments."""


@dataclasses.dataclass(frozen=True)
class TrainProgram:
    """The training step of a recipe, for batches of any shape.

    Attributes:
      step: the jitted function of (state, batch).
      state: shapes and shardings of the training state.
      mesh: of the devices.
    """

    step: Any
    state: TrainState
    mesh: Mesh

    def __call__(self, shape: BatchShape, tokens_per_device: int) -> Program:
        """Returns the step and its arguments for one shape.

        Raises ValueError if the batch cannot be divided among the devices.
        """
        shards = num_shards(self.mesh)
        rows = ProcessRows(shards, tuple(range(shards)), tokens_per_device)
        return self.step, (self.state, BatchPlacement(self.mesh, rows, (shape,)).like(shape))


def train_program(
    config: Config,
    model: Transformer,
    optimizer: optax.GradientTransformation,
    adaptation: Adaptation,
    mesh: Mesh,
) -> TrainProgram:
    """Returns the training step of a recipe."""
    step = make_train_step(model, optimizer, config.training, adaptation)
    make = functools.partial(
        init_state,
        model,
        optimizer,
        config.seed,
        adaptation=adaptation,
        with_ema=config.training.ema_decay > 0,
    )
    state = abstract_state(make, model, adaptation, mesh)
    return TrainProgram(step, state, mesh)


def search_shapes(config: DecodingConfig, lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the (sentences, source tokens) of the program for each of these source lengths."""
    limit, tokens = config.max_rows_per_batch, config.tokens_per_batch
    return [(max(1, min(limit, tokens // length)), length) for length in lengths]


def search_program(
    config: DecodingConfig,
    model: Transformer,
    device: Any,
    rows: int,
    length: int,
    *,
    encode_only: bool = False,
) -> Program:
    """Returns beam search (or greedy search) on one device that holds all parameters.

    Args:
      config: beam size and limits.
      model: the model.
      device: to compile for.
      rows: sentences.
      length: source tokens of each sentence.
      encode_only: leave out the loop over target tokens.
    """
    program = SearchProgram(
        models=(model,),
        beam_size=1 if config.is_sampling else config.beam_size,
        num_hypotheses=1 if config.is_sampling else config.num_hypotheses,
        max_target_length=config.length_limit(length),
        bos_id=model.bos_id,
        eos_id=model.bos_id + 1,
        pad_id=0,
        length_normalization=config.length_normalization,
        early_stopping=config.early_stopping,
        forced_end=config.forced_end,
        renormalize=config.renormalize,
    )

    # The inputs of the search are made inside: its dataclasses check that their fields are arrays.
    def search(params: Any, tokens: Any, limits: Any, suppressed: Any, penalty: Any) -> Any:
        if encode_only:
            return encode_sources(program.models, (params,), tokens, tokens, tokens)
        wishes = SearchInputs(
            SentenceOptions(limits), suppressed=suppressed, length_penalty=penalty
        )
        return search_batch((params,), tokens, tokens, tokens, wishes, program=program)

    sharding = replicated(make_mesh(devices=[device]))
    params = jax.eval_shape(lambda: init_params(model, jax.random.key(0)))
    arguments = (
        params,
        jax.ShapeDtypeStruct((rows, length), jnp.int32),
        jax.ShapeDtypeStruct((rows,), jnp.int32),
        jax.ShapeDtypeStruct((model.target_vocab_size,), jnp.bool_),
        jax.ShapeDtypeStruct((), jnp.float32),
    )
    return jax.jit(search), jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), arguments
    )
