"""Runs functions on Apache Beam, so that many machines share the work (extra `beam`).

A job has three steps:

    read     one worker reads a source, and sends its items to all workers
    work     what is done with an item: the same functions as without Beam
    write    one worker writes the results of consecutive items

The functions are pickled into a folder that this process and all workers share.
"""

import contextlib
import dataclasses
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

ERROR = "error"  # the message of a worker
_GROUP = 256  # items whose results are in one file


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
        self._options, self.folder = parse_options(options), folder

    def map_each(
        self, work: Callable[[T], R], readers: Sequence[Callable[[], Iterable[T]]]
    ) -> list[Callable[[], Iterator[R]]]:
        """As `Workers.map_each`. All readers are one job, which runs when results are wanted."""
        results = self._new_folder()
        save = functools.partial(_save_results, str(results))
        run = functools.cache(lambda: self.run(readers, work, save))

        def results_of(number: int) -> Iterator[R]:
            run()
            return _results(results, number)

        return [functools.partial(results_of, number) for number in range(len(readers))]

    def run(
        self,
        readers: Sequence[Callable[[], Iterable[Any]]],
        work: Callable[[Any], Any],
        write: Callable[[tuple[int, int], list[Any]], None],
        group_size: int = _GROUP,
    ) -> None:
        """Applies `work` to all items, and `write` to the results of each `group_size` items.

        `write` also gets the number of the reader and of the group. It may run twice, at the same
        time. Raises ValueError with the message of an error that a worker raised.
        """
        import apache_beam as beam  # pyright: ignore[reportMissingImports]

        job = self._new_folder()
        for name, function in {"work": work, "write": write}.items():
            _dump(job / name, function)
        for number, reader in enumerate(readers):
            _dump(job / "readers" / str(number), reader)
        try:
            with beam.Pipeline(options=self._options) as pipeline:
                _ = (
                    pipeline
                    | "sources" >> beam.Create(range(len(readers)))
                    | "spread sources" >> beam.Reshuffle()
                    | "read" >> beam.FlatMap(_Read(str(job), group_size))
                    | "spread blocks" >> beam.Reshuffle()
                    | "work" >> beam.Map(_Work(str(job)))
                    | "collect" >> beam.GroupByKey()
                    | "write" >> beam.Map(_Write(str(job)))
                )
        except Exception as error:  # the runner's own class, with the traceback of the worker
            if (job / ERROR).is_file():
                raise ValueError((job / ERROR).read_text(encoding="utf-8")) from error
            raise

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        if isinstance(self.folder, Path):
            with contextlib.suppress(OSError):  # not empty, if the preparation is not complete
                self.folder.rmdir()

    def _new_folder(self) -> AnyPath:
        """Returns a folder that is removed at the end."""
        folder = self.folder / f"job-{uuid.uuid4().hex}"
        self._stack.callback(remove_tree, folder)
        return folder


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


@dataclasses.dataclass(frozen=True)
class _Step:
    """A step of a job. It keeps the message of an error for the process that runs the job."""

    job: str

    def load(self, name: str) -> Any:
        """Returns a pickled object of the job."""
        return _load(f"{self.job}/{name}")

    @contextlib.contextmanager
    def reported(self) -> Iterator[None]:
        """Keeps the message of an error about text, files or settings."""
        try:
            yield
        except (ValueError, OSError) as error:
            write_file(as_path(self.job) / ERROR, str(error).encode())
            raise


@dataclasses.dataclass(frozen=True)
class _Read(_Step):
    """Yields the items of a reader, with their group and their number."""

    group_size: int

    def __call__(self, number: int) -> Iterator[Keyed]:
        with self.reported():
            for index, item in enumerate(self.load(f"readers/{number}")()):
                yield (number, index // self.group_size), (index, item)


class _Work(_Step):
    """Does the work for an item."""

    def __call__(self, keyed: Keyed) -> Keyed:
        group, (index, item) = keyed
        with self.reported():
            return group, (index, self.load("work")(item))


class _Write(_Step):
    """Writes the results of a group."""

    def __call__(self, keyed: tuple[tuple[int, int], Iterable[tuple[int, Any]]]) -> None:
        group, results = keyed
        in_order = [result for _, result in sorted(results, key=lambda one: one[0])]
        with self.reported():
            self.load("write")(group, in_order)


def _save_results(folder: str, group: tuple[int, int], results: list[Any]) -> None:
    reader, number = group
    _dump(as_path(folder) / str(reader) / f"{number:08}", results)


def _results(folder: AnyPath, reader: int) -> Iterator[Any]:
    """Yields the results of a reader."""
    own = folder / str(reader)
    for name in file_sizes(own):
        yield from pickle.loads((own / name).read_bytes())


def _dump(path: AnyPath, values: Any) -> None:
    make_folder(path.parent)
    write_file(path, pickle.dumps(values))


@functools.lru_cache(maxsize=8)
def _load(path: str) -> Any:
    return pickle.loads(as_path(path).read_bytes())
