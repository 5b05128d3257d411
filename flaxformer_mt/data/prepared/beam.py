"""Runs a preparation on many machines with Apache Beam (extra `beam`).

    read     one worker reads a source, and sends its items to all workers
    work     the workers apply the same functions to the items as without Beam
    write    each group of consecutive results becomes a file in a folder that all machines share

This process then reads the results from that folder.
"""

import contextlib
import functools
import pickle
import shlex
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from flaxformer_mt.data.worker_processes import Workers
from flaxformer_mt.storage.paths import (
    AnyPath,
    as_path,
    file_sizes,
    make_folder,
    remove_tree,
    write_file,
)

T = TypeVar("T")
R = TypeVar("R")
Keyed = tuple[tuple[int, int], tuple[int, Any]]
"""((reader, group), (index in the reader, item))."""

_ERROR = "error"  # file with the message of a failed worker
_GROUP = 64  # results in one file


class BeamWorkers(Workers):
    """Applies functions to many items on the workers of a Beam runner."""

    def __init__(self, options: str, folder: AnyPath) -> None:
        """Checks the options.

        Args:
          options: command-line options of Beam, such as "--runner DataflowRunner".
          folder: a folder on a network disk, or an address, that this process and all workers use.

        Raises ValueError if Beam is not installed.
        """
        super().__init__(1)
        self._options, self._folder = parse_options(options), folder

    def map_each(
        self, work: Callable[[T], R], readers: Sequence[Callable[[], Iterable[T]]]
    ) -> list[Callable[[], Iterator[R]]]:
        """Does the same as `Workers.map_each`, with one Beam job for all readers.

        The first iteration over results runs the job. If a worker fails, it raises ValueError with
        the message of the worker.
        """
        folder = self._folder / f"job-{uuid.uuid4().hex}"
        self._stack.callback(remove_tree, folder)
        run = functools.cache(functools.partial(self._run, folder, readers, work))

        def results_of(number: int) -> Iterator[R]:
            run()
            return _results(folder / str(number))

        return [functools.partial(results_of, number) for number in range(len(readers))]

    def _run(
        self, folder: AnyPath, readers: Sequence[Callable[[], Iterable[Any]]], work: Callable
    ) -> None:
        import apache_beam as beam

        try:
            with beam.Pipeline(options=self._options) as pipeline:
                _ = (
                    pipeline
                    | "sources" >> beam.Create(range(len(readers)))
                    | "spread sources" >> beam.Reshuffle()
                    | "read" >> beam.FlatMap(_read, tuple(readers), str(folder))
                    | "spread items" >> beam.Reshuffle()
                    | "work" >> beam.Map(_work, work, str(folder))
                    | "collect" >> beam.GroupByKey()
                    | "write" >> beam.Map(_write, str(folder))
                )
        except Exception as error:  # its class depends on the runner; it has the worker's traceback
            if (folder / _ERROR).is_file():
                raise ValueError((folder / _ERROR).read_text(encoding="utf-8")) from error
            raise

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if isinstance(self._folder, Path):
            with contextlib.suppress(OSError):  # the folder has other files of the user
                self._folder.rmdir()


def parse_options(options: str) -> Any:
    """Returns Beam's object of options. Raises ValueError if Beam is not installed."""
    try:
        from apache_beam.options import (
            pipeline_options,
        )
    except ImportError as error:
        raise ValueError(
            f"--engine beam needs Apache Beam: `pip install 'flaxformer_mt[beam]'` ({error})"
        ) from error
    # Not the default runner of Beam, because it may download a program.
    return pipeline_options.PipelineOptions(["--runner=FnApiRunner", *shlex.split(options)])


def _read(number: int, readers: Sequence[Callable], folder: str) -> Iterator[Keyed]:
    """Yields the items of a reader, with their groups and indices."""
    with _reported(folder):
        for index, item in enumerate(readers[number]()):
            yield (number, index // _GROUP), (index, item)


def _work(keyed: Keyed, work: Callable, folder: str) -> Keyed:
    group, (index, item) = keyed
    with _reported(folder):
        return group, (index, work(item))


def _write(group: tuple[tuple[int, int], Iterable[tuple[int, Any]]], folder: str) -> None:
    """Writes the results of a group atomically. Each attempt writes its own file.

    Beam repeats a failed attempt. Two attempts may run at the same time; their results are equal.
    """
    (reader, number), results = group
    in_order = [result for _, result in sorted(results, key=lambda one: one[0])]
    file = as_path(folder) / str(reader) / f"{number:08}.{uuid.uuid4().hex}"
    with _reported(folder):
        make_folder(file.parent)
        write_file(file, pickle.dumps(in_order))


def _results(folder: AnyPath) -> Iterator[Any]:
    """Yields the results of a reader."""
    names = [name for name in file_sizes(folder) if not name.endswith(".partial")]
    for name in {name.partition(".")[0]: name for name in names}.values():
        yield from pickle.loads((folder / name).read_bytes())


@contextlib.contextmanager
def _reported(folder: str) -> Iterator[None]:
    """Writes the message of a ValueError or OSError to a file, for the waiting process."""
    try:
        yield
    except (ValueError, OSError) as error:
        make_folder(as_path(folder))
        write_file(as_path(folder) / _ERROR, str(error).encode())
        raise
