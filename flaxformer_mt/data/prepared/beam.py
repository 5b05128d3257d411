"""Runs the work of a preparation on Apache Beam, so that many machines share it (extra `beam`).

    read     one worker reads a source, and sends its items to all workers
    work     what is done with an item: the same functions as without Beam
    write    the results of consecutive items become a file in a folder that all machines share

This process reads the results from there, and does with them what it does without Beam.
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
"""Number of the reader and of the group; number in the reader, and the item."""

_ERROR = "error"  # the message of a worker
_GROUP = 64  # items whose results are in one file


class BeamWorkers(Workers):
    """Applies functions to many items on the workers of a Beam runner."""

    def __init__(self, options: str, folder: AnyPath) -> None:
        """Checks the options.

        Args:
          options: options of Beam as on a command line, such as "--runner DataflowRunner".
          folder: shared by this process and all workers: a network disk, or an address.

        Raises ValueError if Beam is not installed, or does not know an option.
        """
        super().__init__(1)
        self._options, self._folder = parse_options(options), folder

    def map_each(
        self, work: Callable[[T], R], readers: Sequence[Callable[[], Iterable[T]]]
    ) -> list[Callable[[], Iterator[R]]]:
        """As `Workers.map_each`. All readers are one job, which runs when results are wanted.

        Getting results raises ValueError with the message of an error that a worker raised.
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
        import apache_beam as beam  # pyright: ignore[reportMissingImports]

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
        except Exception as error:  # the runner's own class, with the traceback of the worker
            if (folder / _ERROR).is_file():
                raise ValueError((folder / _ERROR).read_text(encoding="utf-8")) from error
            raise

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if isinstance(self._folder, Path):
            with contextlib.suppress(OSError):  # the user's own folder has other files
                self._folder.rmdir()


def parse_options(options: str) -> Any:
    """Returns options of Beam as its object. Raises ValueError as `BeamWorkers`."""
    try:
        from apache_beam.options import (  # pyright: ignore[reportMissingImports]
            pipeline_options,
        )
    except ImportError as error:
        raise ValueError(
            f"--engine beam needs Apache Beam: `pip install 'flaxformer_mt[beam]'` ({error})"
        ) from error
    # Beam's own default downloads a program, where it can.
    return pipeline_options.PipelineOptions(["--runner=FnApiRunner", *shlex.split(options)])


def _read(number: int, readers: Sequence[Callable], folder: str) -> Iterator[Keyed]:
    """Yields the items of a reader, with their group and their number."""
    with _reported(folder):
        for index, item in enumerate(readers[number]()):
            yield (number, index // _GROUP), (index, item)


def _work(keyed: Keyed, work: Callable, folder: str) -> Keyed:
    group, (index, item) = keyed
    with _reported(folder):
        return group, (index, work(item))


def _write(group: tuple[tuple[int, int], Iterable[tuple[int, Any]]], folder: str) -> None:
    """Writes the results of a group. Each try has a file of its own, which is complete or absent.

    Beam repeats a failed try. Two tries may run at the same time; their results are equal.
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
    """Keeps the message of an error about text, files or settings, for the waiting process."""
    try:
        yield
    except (ValueError, OSError) as error:
        make_folder(as_path(folder))
        write_file(as_path(folder) / _ERROR, str(error).encode())
        raise
