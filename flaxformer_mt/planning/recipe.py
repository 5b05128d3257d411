"""The programs of a recipe, on abstract state and batches: what training, validation and
translation would compile."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from flaxformer_mt.config import Config
from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.inference.continuous_batching import SentenceOptions
from flaxformer_mt.inference.ensemble import read_sources, start_ensemble
from flaxformer_mt.inference.grouping import length_menu
from flaxformer_mt.inference.programs import SearchInputs, SearchProgram, search_batch
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.batch_partition import Share
from flaxformer_mt.runtime.sharding import BatchPlacement, make_mesh, num_shards, replicated
from flaxformer_mt.training.adapting import Adaptation
from flaxformer_mt.training.state import TrainState, init_params, place, state_maker
from flaxformer_mt.training.step import make_eval_step, train_step_of
from flaxformer_mt.translation.config import DecodingConfig

Program = tuple[Any, tuple[Any, ...]]
"""What is jitted, and the shapes (with shardings) of its arguments."""


def whole_share(mesh: Mesh, tokens_per_device: int = 0) -> Share:
    """All rows: one plan is made for all processes."""
    shards = num_shards(mesh)
    return Share(shards, tuple(range(shards)), tokens_per_device)


@dataclasses.dataclass(frozen=True)
class BatchProgram:
    """A program over batches, for (shape, tokens_per_device).

    Called, it raises ValueError where the shape cannot be divided among the devices.

    Attributes:
      jitted: of (held, batch).
      held: shapes and places of what it has besides: the training state, or parameters.
    """

    jitted: Any
    held: Any
    mesh: Mesh

    def __call__(self, shape: BatchShape, tokens_per_device: int) -> Program:
        """The program and its arguments."""
        share = whole_share(self.mesh, tokens_per_device)
        return self.jitted, (self.held, BatchPlacement(self.mesh, share, (shape,)).like(shape))


def train_program(
    config: Config,
    model: Transformer,
    optimizer: optax.GradientTransformation,
    adaptation: Adaptation,
    mesh: Mesh,
) -> BatchProgram:
    """The training step.

    Raises ValueError where the rules of the mesh do not fit the model.
    """
    step = train_step_of(config.training, model, optimizer, adaptation)
    make = state_maker(config.training, model, optimizer, adaptation, config.seed)
    return BatchProgram(step, place(make, model, adaptation, mesh, config.mesh.rules), mesh)


def eval_program(model: Transformer, mesh: Mesh, state: TrainState) -> BatchProgram:
    """The validation loss; its parameters lie as they do in training."""
    return BatchProgram(make_eval_step(model), state.params, mesh)


def search_rows(config: DecodingConfig, length: int) -> int:
    """How many sentences of a program of this length are translated together."""
    return max(1, min(config.max_rows_per_batch, config.tokens_per_batch // length))


def search_lengths(max_source_length: int) -> tuple[int, ...]:
    """The source lengths that translation compiles for."""
    return length_menu(max_source_length)


def search_program(
    config: DecodingConfig, model: Transformer, device: Any, length: int, *, encode_only: bool
) -> Program:
    """A beam search (or greedy search) for sources of `length`, on one device with all parameters.

    Args:
      encode_only: all but the loop over target tokens: encoder, keys and values, empty cache.
    """
    rows, whole = search_rows(config, length), replicated(make_mesh(devices=[device]))
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

    def like(shape: tuple[int, ...], dtype: Any) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=whole)

    # Made inside, of arrays: a dataclass of shapes is none of what its fields are declared to be.
    def search(params: Any, tokens: Any, limits: Any, suppressed: Any, penalty: Any) -> Any:
        if encode_only:
            return start_ensemble(
                read_sources(program.models, (params,), tokens, tokens, tokens),
                beam_size=program.beam_size,
                max_target_length=program.max_target_length,
                with_coverage=False,
            )
        wishes = SearchInputs(
            SentenceOptions(limits), suppressed=suppressed, length_penalty=penalty
        )
        return search_batch((params,), tokens, tokens, tokens, wishes, program=program)[0]

    params = jax.tree.map(
        lambda x: like(x.shape, x.dtype),
        jax.eval_shape(lambda: init_params(model, jax.random.key(0))),
    )
    arguments = (
        params,
        like((rows, length), jnp.int32),
        like((rows,), jnp.int32),
        like((model.target_vocab_size,), jnp.bool_),
        like((), jnp.float32),
    )
    return jax.jit(search), arguments
