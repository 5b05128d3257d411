"""The plan of a recipe on one slice: every program that it would compile, estimated."""

import dataclasses
from collections.abc import Callable, Collection

import jax

from flaxformer_mt.config import Config
from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.model.initialization import boxed_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.planning.estimates import Estimate, Plan, SearchEstimate, TrainEstimate
from flaxformer_mt.planning.memory import bytes_on_device, plan_micro_batches
from flaxformer_mt.planning.programs import estimate
from flaxformer_mt.planning.recipe import (
    BatchProgram,
    eval_program,
    search_lengths,
    search_program,
    search_rows,
    train_program,
)
from flaxformer_mt.planning.topology import Slice
from flaxformer_mt.planning.workload import Workload
from flaxformer_mt.runtime.sharding import make_mesh, num_shards, parse_memory
from flaxformer_mt.training.adapting import make_adaptation
from flaxformer_mt.training.optimizer import make_optimizer


def make_plan(
    config: Config,
    workload: Workload,
    place: Slice,
    *,
    programs: Collection[str] = ("train", "evaluate", "translate"),
    only_largest: bool = False,
    source_lengths: Collection[int] = (),
    progress: Callable[[str], None] = lambda line: None,
) -> Plan:
    """Compiles the programs of a recipe for a slice; nothing runs.

    Args:
      programs: which of the three kinds.
      only_largest: of each kind the largest shape alone.
      source_lengths: of the searches; none = those that translation compiles for.
      progress: is told what is being compiled.
    """
    try:
        lengths = tuple(source_lengths) or search_lengths(config.data.max_source_length)
        if only_largest:
            lengths = lengths[-1:]
        return _make_plan(config, workload, place, programs, only_largest, lengths, progress)
    except ValueError as error:  # a mesh, rules or a limit that do not fit this slice
        return Plan(place=place, workload=workload, failure=str(error))


def _make_plan(
    config: Config,
    workload: Workload,
    place: Slice,
    programs: Collection[str],
    only_largest: bool,
    source_lengths: Collection[int],
    progress: Callable[[str], None],
) -> Plan:
    model = Transformer(config.model, *workload.vocabulary, workload.bos_id)
    optimizer = make_optimizer(config.training, config.model.d_model)
    adaptation = make_adaptation(
        config.training, jax.eval_shape(lambda: boxed_params(model, jax.random.key(0)))
    )
    mesh = make_mesh(config.mesh, place.devices)
    step = train_program(config, model, optimizer, adaptation, mesh)
    shapes = (workload.largest,) if only_largest else workload.shapes
    chosen, tokens = None, config.mesh.tokens_per_device
    if config.mesh.memory_limit:
        limit = parse_memory(config.mesh.memory_limit)
        progress(f"the micro-batch that fits {config.mesh.memory_limit}")
        chosen = plan_micro_batches(
            *(config, model, optimizer, adaptation, mesh, shapes, limit),
            compiler_options=place.compiler_options,
        )
        tokens = chosen.tokens_per_device

    def compiled(name: str, program: BatchProgram, shape: BatchShape) -> tuple[Estimate, int]:
        progress(f"{name} {shape}")
        try:
            jitted, arguments = program(shape, tokens)
        except ValueError as error:  # fewer rows than devices
            return Estimate(name=f"{name} {shape}", failure=str(error)), 0
        micro_batches = arguments[1].inputs.shape[0]
        return estimate(f"{name} {shape}", place, jitted, *arguments), micro_batches

    train, evaluate, search = [], [], []
    if "train" in programs:
        for shape in shapes:
            found, micro_batches = compiled("train", step, shape)
            index = workload.shapes.index(shape)
            train.append(
                TrainEstimate(
                    shape=shape,
                    estimate=found,
                    micro_batches=micro_batches,
                    # One shape for all of them: filled as they are on average.
                    target_tokens=shape.rows * shape.target_length * workload.fill
                    if only_largest
                    else workload.target_tokens[index],
                    share=1.0 if only_largest else workload.shares[index],
                )
            )
    state = step.held
    if "evaluate" in programs:
        loss = eval_program(model, mesh, state)
        evaluate = [compiled("evaluate", loss, shape)[0] for shape in shapes]
    if "translate" in programs:
        for length in source_lengths:
            progress(f"translate {length}")
            search.append(_search(config, model, place, length))
    return Plan(
        place=place,
        workload=workload,
        train=tuple(train),
        evaluate=tuple(evaluate),
        search=tuple(search),
        state_bytes=bytes_on_device(state),
        shards=num_shards(mesh),
        micro_batches=chosen,
    )


def _search(config: Config, model: Transformer, place: Slice, length: int) -> SearchEstimate:
    one = dataclasses.replace(place, devices=place.devices[:1])
    rows = search_rows(config.decoding, length)
    name = f"translate {rows} x {length}, beam {config.decoding.beam_size}"

    def compiled(*, encode_only: bool) -> Estimate:
        program, arguments = search_program(
            config.decoding, model, one.devices[0], length, encode_only=encode_only
        )
        return estimate(name, one, program, *arguments)

    whole = compiled(encode_only=False)
    # The compiler's sum has all that comes before the loop, and the loop once: apart, they tell
    # what a token takes.
    before = compiled(encode_only=True) if whole.seconds else Estimate(name=name)
    return SearchEstimate(
        rows=rows,
        length=length,
        estimate=whole,
        encode_seconds=before.seconds,
        encode_flops=before.flops,
    )
