"""Reports of a run: progress on the terminal, metrics.jsonl, and TensorBoard."""

import contextlib
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tensorboardX import summary
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog  # pyrefly: ignore
from tqdm import tqdm

from flaxformer_mt.storage.mirror import Mirror
from flaxformer_mt.storage.paths import PathLike, as_path, naming, write_file

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_COPIES = 30.0  # to a bucket


class Sample(NamedTuple):
    """A sentence of the validation set with its translation by the current model."""

    source: str
    reference: str
    translation: str


class Reporter:
    """Writes a run's metrics to `workdir` and shows them on standard error.

    metrics.jsonl has one object a line: "step", "kind" ("train" or "validation"), the metrics,
    and "time" (seconds since 1970). A line of the kind "start" comes before the first update of
    each start, with the "kernels" of the updates that follow. The last line has the kind "end" and
    the "reason" of the end. A resumed run removes the end line and all lines after its start. The
    file then equals that of an uninterrupted run, except for times, lines of the kind "start", and
    the averages of the `log_every` steps around the stop.

    Args:
      workdir: existing directory of the run. None in all processes except the first: they report
        nothing.
      resume_step: updates done before this start, 0 for a new run.
      total_steps: updates at the end.
      quiet: show nothing, but write the files.
    """

    def __init__(
        self,
        workdir: PathLike | None,
        *,
        resume_step: int = 0,
        total_steps: int,
        quiet: bool = False,
    ):
        self._workdir = workdir
        if workdir is not None:
            self._mirror = Mirror(as_path(workdir), "metrics.jsonl")
            path = self._mirror.folder / "metrics.jsonl"
            truncate_metrics(path, after=resume_step)
            self._file = path.open("a", encoding="utf-8")
            with naming(workdir):
                self._events = _open_events(self._mirror.folder / "tensorboard", resume_step)
        self._quiet = quiet = quiet or workdir is None
        # Only a terminal can redraw a progress bar; print lines elsewhere.
        self._lines = not quiet and not sys.stderr.isatty()
        self._bar = tqdm(
            total=total_steps,
            initial=resume_step,
            unit="step",
            file=sys.stderr,
            dynamic_ncols=True,
            disable=quiet or self._lines,
        )
        self._start_time, self._start_step = time.monotonic(), resume_step
        self._total_steps = total_steps
        self._last_line = -math.inf

    def start(self, kernels: str) -> None:
        """Writes the kernels of the following updates to metrics.jsonl."""
        self._write({"step": self._start_step, "kind": "start", "kernels": kernels})

    def train(self, step: int, metrics: Mapping[str, float]) -> None:
        """Reports training metrics since the last report, after `step` updates.

        The metrics are plain numbers: "loss", "tokens_per_second" (without padding) and others.
        """
        self._record("train", step, metrics)
        shown = {"loss": f"{metrics['loss']:.3f}"}
        if "tokens_per_second" in metrics:
            shown["tokens/s"] = f"{metrics['tokens_per_second']:,.0f}"
        self._bar.set_postfix(shown, refresh=False)
        self._bar.update(step - self._bar.n)
        now = time.monotonic()
        due = now - self._last_line >= _SECONDS_BETWEEN_LINES or step >= self._total_steps
        if self._lines and due:
            self._last_line = now
            texts = ", ".join(f"{name} {value}" for name, value in shown.items())
            seconds = (now - self._start_time) / max(1, step - self._start_step)
            left = tqdm.format_interval(seconds * (self._total_steps - step))
            self.message(f"step {step}/{self._total_steps}: {texts}, {left} left")

    def validation(
        self, step: int, metrics: Mapping[str, float], samples: Sequence[Sample] = ()
    ) -> None:
        """Reports a validation, after `step` updates, with sample translations as text."""
        self._record("validation", step, metrics, samples)
        values = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        self.message(f"step {step}: validation {values}")
        for sample in samples:
            self.message(
                "".join(f"  {name:<12} {text}\n" for name, text in sample._asdict().items())
            )

    def compiled(self, what: str, seconds: float) -> None:
        """Reports a compilation, whose time does not count in the estimate of the time left."""
        self._start_time += seconds
        if not self._bar.disable:
            self._bar.start_t += seconds
            self._bar.last_print_t += seconds
        if seconds >= 1:
            self.message(f"compiled  {what} in {seconds:.0f} s")

    def end(self, step: int, reason: str, *, show: bool = True) -> None:
        """Reports why the run ends; without `show`, in metrics.jsonl only."""
        self._write({"step": step, "kind": "end", "reason": reason})
        if show:
            self.message(f"end of training: {reason}")

    def message(self, text: str) -> None:
        """Shows a line of text above the progress bar, if standard error still has a reader."""
        with contextlib.suppress(OSError):  # SIGHUP can end the reader of a pipe too
            if not self._quiet:
                tqdm.write(text, file=sys.stderr)

    def close(self) -> None:
        """Closes the progress bar and all files, even if closing one of them fails."""
        self._bar.close()
        if self._workdir is not None:
            with contextlib.ExitStack() as last_first:
                last_first.callback(self._mirror.close)
                last_first.callback(self._events.close)
                last_first.callback(self._file.close)

    def flush(self) -> None:
        """Ensures that all reports so far are in the workdir. Call it before saving a checkpoint.

        A run that resumes from the checkpoint does not write these reports again.
        """
        if self._workdir is not None:
            self._mirror.copy()

    def _record(
        self, kind: str, step: int, metrics: Mapping[str, float], samples: Sequence[Sample] = ()
    ) -> None:
        line: dict[str, Any] = {"step": step, "kind": kind}
        # JSON has neither infinity nor NaN.
        line |= {name: x if math.isfinite(x) else None for name, x in metrics.items()}
        line |= {"samples": [sample._asdict() for sample in samples]} if samples else {}
        summaries = [summary.scalar(f"{kind}/{name}", value) for name, value in metrics.items()]
        for number, sample in enumerate(samples):
            parts = [f"**{name}** {text}" for name, text in sample._asdict().items()]
            summaries.append(summary.text(f"samples/{number}", "  \n".join(parts)))
        self._write(line, [Event(step=step, wall_time=time.time(), summary=x) for x in summaries])

    def _write(self, line: dict[str, Any], events: Sequence[Event] = ()) -> None:
        """Writes a line of metrics.jsonl, and events.

        It flushes at once. A kill would lose a buffered line, and the resumed run, which starts
        after this step, would not write it again.
        """
        if self._workdir is None:
            return
        line |= {"time": round(time.time(), 3)}
        try:
            self._file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
            self._file.flush()
            for event in events:
                self._events.write_event(event)
            self._events.flush()
            self._mirror.copy(every=_SECONDS_BETWEEN_COPIES)
        except OSError as error:
            if error.errno is None:  # an error of an object store
                raise OSError(f"could not write to {self._workdir}: {error}") from error
            raise OSError(error.errno, error.strerror, str(self._workdir)) from error


def _open_events(directory: Path, resume_step: int) -> EventsWriter:
    """Opens a new TensorBoard file; TensorBoard reads all files of a directory as one run.

    tensorboardX's SummaryWriter is not used, because its background queue loses the last two
    minutes when the process is killed.
    """
    directory.mkdir(exist_ok=True)
    events = EventsWriter(str(directory / "events"), f".{resume_step}")
    if resume_step:  # makes TensorBoard discard earlier events of these steps
        restart = SessionLog(status=SessionLog.START)
        events.write_event(Event(step=resume_step + 1, wall_time=time.time(), session_log=restart))
    return events


def read_metrics(workdir: PathLike) -> list[dict[str, Any]]:
    """Returns the lines of metrics.jsonl (see `Reporter`)."""
    text = (as_path(workdir) / "metrics.jsonl").read_text(encoding="utf-8")
    # Not splitlines, which also splits at Unicode line separators in a sample.
    return [json.loads(line) for line in text.split("\n") if line]


def truncate_metrics(path: Path, *, after: int) -> None:
    """Atomically drops the lines that a run does not keep when it resumes at step `after`.

    These are lines of later steps, of the kind "end", of a start without updates, and a truncated
    last line.
    """
    if not path.exists():
        return
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = [f"{line}\n" for line in text.split("\n")[:-1]]  # not splitlines, as above
    kept = [line for line in lines if _step_of(line) <= after]
    if "".join(kept) != text:
        write_file(path, "".join(kept).encode())


def _step_of(line: str) -> float:
    """Returns the step of a line; infinity for a line that no resumed run keeps.

    A start counts as a line of the first update after it.
    """
    try:
        values = json.loads(line)
        extra = {"end": math.inf, "start": 1}.get(values.get("kind"), 0)
        return float(values["step"]) + extra
    except (ValueError, KeyError, TypeError, AttributeError):
        return math.inf
