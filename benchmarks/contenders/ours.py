"""Ours, by the way that `train` and `translate` take."""

import dataclasses
import itertools
import time
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.monitoring
import numpy as np

from benchmarks.child import Answer
from benchmarks.rounds import allowed_cpus, pin
from benchmarks.task import read_batches, read_sentences, search_rules, shape_of
from flaxformer_mt.config import from_json
from flaxformer_mt.data.batch import Batch
from flaxformer_mt.data.pipeline import build_data
from flaxformer_mt.decoding.config import DecodingConfig
from flaxformer_mt.decoding.devices import on_all_devices
from flaxformer_mt.decoding.requests import Request
from flaxformer_mt.decoding.translator import Translator
from flaxformer_mt.sharding import (
    BatchPlacement,
    MeshConfig,
    configure_cpu_devices,
    make_mesh,
    make_share,
)
from flaxformer_mt.training.adapting import TRAIN_ALL
from flaxformer_mt.training.checkpoint import load_model
from flaxformer_mt.training.optimizer import make_optimizer
from flaxformer_mt.training.state import place, state_maker
from flaxformer_mt.training.step import Metrics, train_step_of

COMPILED = "/jax/core/compile/backend_compile_duration"


class Compilations:
    """Counts what XLA compiles from now on, as on the first start: no cache is read."""

    def __init__(self) -> None:
        """Starts to listen."""
        jax.config.update("jax_enable_compilation_cache", False)
        self.count, self.seconds = 0, 0.0
        jax.monitoring.register_event_duration_secs_listener(self._hear)

    def _hear(self, event: str, duration_secs: float, **_: Any) -> None:
        if event == COMPILED:
            self.count += 1
            self.seconds += duration_secs

    @property
    def facts(self) -> Answer:
        """As rows have them."""
        return {"compilations": self.count, "compile_seconds": self.seconds}


def device_memory(device: str) -> Answer:
    """On a GPU its peak, which stands for that of the process."""
    stats = jax.devices()[0].memory_stats() if device == "gpu" else None
    return {"peak_memory": stats["peak_bytes_in_use"]} if stats else {}


class Training:
    """The real step on real devices: state donated, batches placed, nothing waited for between."""

    def __init__(self, *, workdir: str, batches: str, dtype: str, device: str) -> None:
        """Makes the state of step 0, and compiles the step for each shape."""
        configure_cpu_devices(MeshConfig())
        self._compilations, self._device = Compilations(), device
        loaded = load_model(workdir)
        model_config: Any = dataclasses.replace(loaded.config.model, dtype=dtype)
        self.config, training = loaded.config, loaded.config.training
        model = loaded.model.clone(config=model_config)
        optimizer = make_optimizer(training, model_config.d_model)
        self._step = train_step_of(training, model, optimizer, TRAIN_ALL)
        mesh = make_mesh(self.config.mesh)
        make_state = state_maker(training, model, optimizer, TRAIN_ALL, self.config.seed)
        like = place(make_state, model, TRAIN_ALL, mesh, self.config.mesh.rules)
        places = jax.tree.map(lambda x: x.sharding, like)
        start = jax.jit(lambda params: make_state(params=params), out_shardings=places)
        self._state = start(jax.device_get(loaded.params))
        self.batches = read_batches(batches)
        one_of_each = {shape_of(batch): batch for batch in self.batches}
        self._placement = BatchPlacement(mesh, make_share(mesh), tuple(one_of_each))
        losses = [float(self.update(batch).loss) for batch in one_of_each.values()]
        self.facts = self._compilations.facts | {"first_loss": losses[0]}

    def update(self, batch: Batch) -> Metrics:
        """One update; returns before it is done."""
        self._state, metrics = self._step(self._state, self._placement(batch))
        return metrics

    def round(self) -> Answer:
        """Each batch once."""
        return self.timed(self.batches)

    def timed(self, batches: Iterable[Batch]) -> Answer:
        """All these batches, and how long the loop stood still for the next one."""
        compiled_before, waited, metrics = self._compilations.count, 0.0, None
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
            "compilations_later": self._compilations.count - compiled_before,
        } | device_memory(self._device)


class TrainingFromPipeline(Training):
    """The same, with the batches as they come from the pipeline at that time."""

    def __init__(self, *, workdir: str, batches: str, dtype: str, device: str, steps: int) -> None:
        """`batches` has one of each shape; a round is so many `steps`."""
        super().__init__(workdir=workdir, batches=batches, dtype=dtype, device=device)
        tokenizer = f"{workdir}/tokenizer"
        self._data = build_data(self.config.data, tokenizer_directory=tokenizer, seed=0)
        self._stream = self._data.train_iterator()
        self._stream.start_prefetch()  # as training does while it compiles
        self._steps = steps

    def round(self) -> Answer:
        """So many updates."""
        return self.timed(itertools.islice(self._stream, self._steps))


class Decoding:
    """Token ids in, token ids out, by the translator."""

    def __init__(self, *, workdir: str, sentences: str, dtype: str, device: str) -> None:
        """Loads the model, as `translate` does; programs are compiled as requests come."""
        configure_cpu_devices(MeshConfig())
        self._compilations, self._device = Compilations(), device
        loaded = load_model(workdir)
        model_config: Any = dataclasses.replace(loaded.config.model, dtype=dtype)
        self._translator = Translator(
            loaded.model.clone(config=model_config),
            on_all_devices(loaded.params),
            loaded.tokenizer,
            max_source_length=loaded.config.data.max_source_length,
        )
        self._sources = read_sentences(sentences)
        self.facts = {}

    def round(self, *, beam_size: int, batch: int, count: int, length: int = 0) -> Answer:
        """The first `count` sentences; with a length, so many tokens for each."""
        config = search_rules(beam_size, length=length, batch=batch)
        before = self._compilations.count, self._compilations.seconds
        start = time.perf_counter()
        found = search(self._translator, self._sources[:count], config)
        seconds = time.perf_counter() - start
        return {
            "seconds": seconds,
            "outputs": found,
            "compilations": self._compilations.count - before[0],
            "compile_seconds": self._compilations.seconds - before[1],
        } | device_memory(self._device)


def search(
    translator: Translator, sources: Sequence[Sequence[int]], config: DecodingConfig
) -> list[list[int]]:
    """The best translation of each source; `translate` without the tokenizer before it."""
    requests = [
        Request(line, np.asarray(source, np.int32)) for line, source in enumerate(sources, start=1)
    ]
    return [hypotheses[0].tokens for hypotheses in translator._search(requests, config)]


class Pipeline:
    """The data pipeline alone: from text or token ids to batches, which nothing takes in.

    One round and no more: it goes on preparing batches, which would disturb who comes next.
    """

    def __init__(
        self, *, config: str, tokenizer: str, epochs: int, one_core: bool, device: str
    ) -> None:
        """Reads and cuts the text.

        Args:
          config: a run's, as JSON.
          tokenizer: directory; learnt into it where it is empty.
          epochs: of a round.
          one_core: work on one CPU.
          device: no matter.
        """
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

        Of the first epoch the plan was made above; workers start before the clock does.
        """
        stream = self._data.train_iterator()
        stream.set_state({"epoch": 1, "index": 0})
        next(stream)
        start = time.perf_counter()
        while stream.get_state()["epoch"] <= self._epochs:
            next(stream)
        next(stream)
        return {"seconds": time.perf_counter() - start} | self.facts
