"""Ours, by the code path of `train` and `translate`."""

import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Iterable
from typing import Any, cast

import jax
import jax.monitoring
import numpy as np

from benchmarks.child import Answer
from benchmarks.contenders.given import read, search_rules, shape_of
from benchmarks.rounds import pin
from flaxformer_mt.checkpoints.loading import LoadedModel, load_model
from flaxformer_mt.config import from_json
from flaxformer_mt.data.batching.batch import Batch
from flaxformer_mt.data.pipeline import build_data
from flaxformer_mt.model.config import Dtype
from flaxformer_mt.runtime.host import allowed_cpus, share_freed_memory
from flaxformer_mt.runtime.sharding import (
    BatchPlacement,
    MeshConfig,
    configure_cpu_devices,
    make_mesh,
    process_rows,
)
from flaxformer_mt.training.adapting import TRAIN_ALL
from flaxformer_mt.training.optimizer import make_optimizer
from flaxformer_mt.training.state import TrainState, abstract_state, init_state
from flaxformer_mt.training.step import Metrics, make_train_step
from flaxformer_mt.translation.requests import Request
from flaxformer_mt.translation.translator import Translator

COMPILED = "/jax/core/compile/backend_compile_duration"


class Compilations:
    """Counts the programs that XLA compiles from now on; no cache is read, as on a first start."""

    def __init__(self) -> None:
        """Starts to count."""
        jax.config.update("jax_enable_compilation_cache", False)
        self._seconds: list[float] = []
        jax.monitoring.register_event_duration_secs_listener(self._hear)

    def _hear(self, event: str, duration_secs: float, **_: Any) -> None:
        if event == COMPILED:
            self._seconds.append(duration_secs)

    def take(self) -> Answer:
        """Returns number and seconds of the compilations since the last call."""
        seconds, self._seconds = self._seconds, []
        return {"compilations": len(seconds), "compile_seconds": sum(seconds)}


def load(workdir: str, dtype: str) -> LoadedModel:
    """Returns a model that computes in this precision, on the devices that our commands use."""
    configure_cpu_devices(MeshConfig())
    loaded = load_model(workdir)
    config = dataclasses.replace(loaded.config.model, dtype=cast(Dtype, dtype))
    return loaded._replace(model=loaded.model.clone(config=config))


def accelerator(device: str) -> Answer:
    """Returns the name of the GPU. Raises RuntimeError if a GPU is requested and there is none."""
    if device == "cpu":
        return {}
    if jax.default_backend() != "gpu":
        raise RuntimeError(f"JAX finds no GPU, but {jax.devices()}")
    return {"accelerator": jax.devices()[0].device_kind}


def device_memory(device: str) -> Answer:
    """Returns the peak memory of the GPU, which replaces that of the process."""
    stats = jax.devices()[0].memory_stats() if device == "gpu" else None
    return {"peak_memory": stats["peak_bytes_in_use"]} if stats else {}


class Training:
    """The training step as in `train`: donated state, placed batches, no wait between steps."""

    def __init__(self, *, workdir: str, batches: str, dtype: str, device: str) -> None:
        """Makes the state of step 0, compiles the step for each shape, and does one round."""
        share_freed_memory()  # as `train` does
        self._compilations, self._device = Compilations(), device
        loaded, here = load(workdir, dtype), accelerator(device)
        self.config, model, training = loaded.config, loaded.model, loaded.config.training
        optimizer = make_optimizer(training, self.config.model.d_model)
        self._step = make_train_step(model, optimizer, training)
        mesh = make_mesh(self.config.mesh)
        make_state = functools.partial(init_state, model, optimizer, self.config.seed)
        like = abstract_state(make_state, model, TRAIN_ALL, mesh)
        places = jax.tree.map(lambda x: x.sharding, like)
        start = jax.jit(lambda params: make_state(params=params), out_shardings=places)
        self._state: TrainState = start(jax.device_get(loaded.params))
        self.batches = read(batches)
        one_of_each = {shape_of(batch): batch for batch in self.batches}
        self._placement = BatchPlacement(mesh, process_rows(mesh), tuple(one_of_each))
        losses = [float(self.update(batch).loss) for batch in one_of_each.values()]
        for batch in self.batches:  # memory grows only in the first steps of each shape
            self.update(batch)
        jax.block_until_ready(self._state)
        self.facts = self._compilations.take() | {"first_loss": losses[0]} | here

    def update(self, batch: Batch) -> Metrics:
        """Starts one update; returns before it ends."""
        self._state, metrics = self._step(self._state, self._placement(batch))
        return metrics

    def round(self) -> Answer:
        """Trains on each batch once."""
        return self.timed(self.batches)

    def timed(self, batches: Iterable[Batch]) -> Answer:
        """Trains on these batches; returns the time, and the time that the loop waited for them."""
        waited, metrics = 0.0, None
        start = asked = time.perf_counter()
        for batch in batches:
            waited += time.perf_counter() - asked
            metrics = self.update(batch)
            asked = time.perf_counter()
        jax.block_until_ready(self._state)
        return {
            "seconds": time.perf_counter() - start,
            "waited": waited,
            "loss": float(metrics.loss) if metrics else 0.0,
            "compilations_later": self._compilations.take()["compilations"],
        } | device_memory(self._device)


class TrainingFromPipeline(Training):
    """Training with batches from the data pipeline, made at the same time."""

    def __init__(self, *, workdir: str, batches: str, dtype: str, device: str, steps: int) -> None:
        """`batches` has one batch of each shape; a round has `steps` steps."""
        super().__init__(workdir=workdir, batches=batches, dtype=dtype, device=device)
        tokenizer = f"{workdir}/tokenizer"
        self._data = build_data(self.config.data, tokenizer_directory=tokenizer, seed=0)
        self._stream = self._data.train_iterator()
        self._stream.start_prefetch()  # as training does while it compiles
        self._steps = steps

    def round(self) -> Answer:
        """Does `steps` updates."""
        return self.timed(itertools.islice(self._stream, self._steps))


class Decoding:
    """The search of `Translator`: token ids in, token ids out."""

    def __init__(self, *, workdir: str, sentences: str, dtype: str, device: str) -> None:
        """Loads the model as `translate` does; programs are compiled at first use."""
        configure_cpu_devices(MeshConfig())
        self._compilations, self._device = Compilations(), device
        self.facts = accelerator(device)
        self._translator = Translator.load(workdir, dtype=cast(Dtype, dtype))
        self._sources = read(sentences)

    def round(self, *, beam_size: int, batch: int, count: int, length: int = 0) -> Answer:
        """Translates the first `count` sentences, with `length` > 0 to that number of tokens."""
        if count <= batch:  # a single batch is divided among the devices
            batch = math.ceil(count / jax.local_device_count())
        config = search_rules(beam_size, length=length, batch=batch)
        start = time.perf_counter()
        requests = [
            Request(line, np.asarray(source, np.int32))
            for line, source in enumerate(self._sources[:count], start=1)
        ]
        found = self._translator.search(requests, config)  # `translate` without the tokenizer
        seconds = time.perf_counter() - start
        outputs = [hypotheses[0].tokens for hypotheses in found]
        compiled = self._compilations.take()
        return {"seconds": seconds, "outputs": outputs} | compiled | device_memory(self._device)


class Pipeline:
    """The data pipeline alone: from text or token ids to batches, which nobody uses.

    It does one round only, because it continues to prepare batches and would disturb the next one.
    """

    def __init__(
        self, *, config: str, tokenizer: str, epochs: int, one_core: bool, device: str
    ) -> None:
        """Reads and tokenizes the text: `config` is JSON; learns the tokenizer if there is none."""
        del device
        if one_core:
            pin(allowed_cpus()[:1])
        self._epochs = epochs
        self._data = build_data(from_json(config).data, tokenizer_directory=tokenizer, seed=0)
        report = self._data.report
        self.facts = {
            "padding": report.padding,
            "shapes": len(report.shapes),
            "pairs": report.train.kept * epochs,
        }

    def round(self) -> Answer:
        """From the first batch of the second epoch to that of a later one, planning included.

        Of the first epoch the plan was made above. Workers start in each epoch.
        """
        stream = self._data.train_iterator()
        stream.set_state({"epoch": 1, "index": 0})
        next(stream)
        start = time.perf_counter()
        while stream.get_state()["epoch"] <= self._epochs:
            next(stream)
        next(stream)
        return {"seconds": time.perf_counter() - start}
