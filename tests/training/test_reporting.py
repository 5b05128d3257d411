"""Reports: metrics.jsonl as without interruption, TensorBoard events, text on the terminal."""

import io
import json
import struct
from pathlib import Path

import pytest
from tensorboardX.proto.event_pb2 import Event

from flaxformer_mt.training.reporting import Reporter, Sample, truncate_metrics

SAMPLES = [Sample("a dog .", "ein Hund .", "ein Hünd ."), Sample("yes", "ja", "ja")]


def report(workdir: Path, *, start: int, stop: int, total: int = 6) -> None:
    """Reports like a run from `start` to `stop` that validates every third step."""
    reporter = Reporter(workdir, resume_step=start, total_steps=total, quiet=True)
    for step in range(start + 1, stop + 1):
        reporter.train(step, {"loss": 9.0 / step, "tokens_per_second": 1000.0})
        if step % 3 == 0:
            reporter.validation(step, {"loss": 8.0 / step, "bleu": float(step)}, SAMPLES)
    reporter.close()


def read(workdir: Path) -> list[dict]:
    """Lines of metrics.jsonl without their times."""
    lines = (workdir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "time"} for line in lines]


def read_events(workdir: Path) -> list[Event]:
    """TensorBoard's files are records of length, checksum, event, checksum."""
    events = []
    for path in sorted((workdir / "tensorboard").iterdir()):
        content = path.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            events.append(Event.FromString(content[12 : 12 + length]))
            content = content[12 + length + 4 :]
    return events


def test_lines_of_metrics(tmp_path):
    report(tmp_path, start=0, stop=3)
    lines = read(tmp_path)
    assert lines[0] == {"step": 1, "kind": "train", "loss": 9.0, "tokens_per_second": 1000.0}
    assert [(line["step"], line["kind"]) for line in lines[2:]] == [(3, "train"), (3, "validation")]
    assert lines[3]["bleu"] == 3.0
    assert lines[3]["samples"][0]["translation"] == "ein Hünd ."


def test_resumed_equals_uninterrupted(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    report(whole, start=0, stop=6)
    report(parts, start=0, stop=5)  # killed at 5, the last checkpoint is that of 3
    with (parts / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "kind": "tra')  # a truncated line
    report(parts, start=3, stop=6)
    assert read(parts) == read(whole)


def test_each_start_that_made_updates_has_a_line(tmp_path):
    for first, last in ((0, 0), (0, 3), (2, 2), (2, 4)):
        reporter = Reporter(tmp_path, resume_step=first, total_steps=4, quiet=True)
        reporter.start(f"set {first}")
        for step in range(first + 1, last + 1):
            reporter.train(step, {"loss": 1.0})
        reporter.end(last, "killed")
        reporter.close()
    lines = read(tmp_path)
    assert [(line["kind"], line["step"]) for line in lines] == [
        ("start", 0),
        ("train", 1),
        ("train", 2),
        ("start", 2),
        ("train", 3),
        ("train", 4),
        ("end", 4),
    ]
    assert lines[3] == {"step": 2, "kind": "start", "kernels": "set 2"}


def test_a_run_killed_before_the_first_checkpoint_starts_a_new_file(tmp_path):
    report(tmp_path, start=0, stop=2)
    report(tmp_path, start=0, stop=1)
    assert [line["step"] for line in read(tmp_path)] == [1]


def test_each_line_is_on_disk_at_once(tmp_path):
    reporter = Reporter(tmp_path, total_steps=9, quiet=True)
    reporter.train(1, {"loss": 1.0})
    assert len(read(tmp_path)) == 1
    assert any(event.step == 1 for event in read_events(tmp_path))
    reporter.close()


def test_truncation_without_lines_to_drop_changes_nothing(tmp_path):
    path = tmp_path / "metrics.jsonl"
    truncate_metrics(path, after=3)
    assert not path.exists()
    path.write_text('{"step": 3}\n')
    before = path.stat().st_ino
    truncate_metrics(path, after=3)
    assert path.stat().st_ino == before and path.read_text() == '{"step": 3}\n'


def test_line_separators_of_unicode_in_a_sample_do_not_cut_a_line(tmp_path):
    path = tmp_path / "metrics.jsonl"
    lines = [f'{{"step": {step}, "samples": ["a\u2028b\x85c"]}}\n' for step in (5, 15)]
    path.write_text("".join(lines), encoding="utf-8")
    truncate_metrics(path, after=10)
    assert path.read_text(encoding="utf-8") == lines[0]


def test_not_a_number_is_valid_json(tmp_path):
    reporter = Reporter(tmp_path, total_steps=1, quiet=True)
    reporter.train(1, {"loss": float("nan"), "grad_norm": float("inf")})
    reporter.close()
    assert read(tmp_path) == [{"step": 1, "kind": "train", "loss": None, "grad_norm": None}]


def test_tensorboard_events(tmp_path):
    report(tmp_path, start=0, stop=3)
    values = {
        (value.tag, event.step): value
        for event in read_events(tmp_path)
        for value in event.summary.value
    }
    assert values["train/loss", 2].simple_value == 4.5
    assert values["validation/bleu", 3].simple_value == 3.0
    (text,) = [value for (tag, _), value in values.items() if tag.startswith("samples/0")]
    assert "ein Hünd ." in text.tensor.string_val[0].decode()


def test_tensorboard_discards_the_steps_that_a_resumed_run_repeats(tmp_path):
    report(tmp_path, start=0, stop=5)
    report(tmp_path, start=3, stop=4)
    restarts = [event.step for event in read_events(tmp_path) if event.HasField("session_log")]
    assert restarts == [4]  # TensorBoard drops earlier events of step 4 and later


def test_terminal_shows_loss_speed_time_left_and_samples(tmp_path, capsys):
    reporter = Reporter(tmp_path, total_steps=4)
    for step in (1, 2, 4):
        reporter.train(step, {"loss": 2.0 / step, "tokens_per_second": 12345.0})
    reporter.validation(4, {"loss": 1.25, "bleu": 33.5}, SAMPLES)
    reporter.message("done")
    reporter.close()
    shown = capsys.readouterr().err
    assert "step 1/4: loss 2.000, tokens/s 12,345, 00:00 left" in shown
    assert "step 2/4" not in shown  # one line in ten seconds, and the last
    assert "step 4/4: loss 0.500" in shown
    assert "step 4: validation loss 1.25, bleu 33.5" in shown
    assert "reference    ein Hund ." in shown and "translation  ein Hünd ." in shown
    assert shown.endswith("done\n")


def test_the_end_is_the_last_line_until_the_run_goes_on(tmp_path, capsys):
    reporter = Reporter(tmp_path, total_steps=4)
    reporter.train(1, {"loss": 2.0})
    reporter.end(1, "no electricity")
    reporter.close()
    train, end = read(tmp_path)
    assert end == {"step": 1, "kind": "end", "reason": "no electricity"}
    assert "end of training: no electricity" in capsys.readouterr().err
    Reporter(tmp_path, resume_step=1, total_steps=4, quiet=True).close()
    assert read(tmp_path) == [train]


@pytest.mark.parametrize("on_a_terminal", [False, True])
def test_the_time_left_excludes_compilations(tmp_path, capsys, monkeypatch, on_a_terminal):
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("sys.stderr.isatty", lambda: on_a_terminal)
    reporter = Reporter(tmp_path, total_steps=100)
    start = getattr(reporter._bar, "start_t", 0.0)
    clock[0] += 300
    reporter.compiled("shape 1 of 2", 300.0)
    clock[0] += 20
    reporter.train(10, {"loss": 2.0})  # 10 steps in 20 seconds
    shown = capsys.readouterr().err
    assert "compiled  shape 1 of 2 in 300 s" in shown
    assert on_a_terminal or "03:00 left" in shown
    assert not on_a_terminal or reporter._bar.start_t == start + 300
    reporter.close()


def test_progress_bar_on_a_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    reporter = Reporter(tmp_path, resume_step=50, total_steps=100)
    reporter.train(75, {"loss": 2.5, "tokens_per_second": 1000.0})
    reporter.close()
    shown = capsys.readouterr().err
    assert "75%" in shown and "75/100" in shown
    assert "loss=2.500" in shown and "tokens/s=1,000" in shown
    assert "step 75/100" not in shown


def test_quiet_shows_nothing(tmp_path, capsys):
    report(tmp_path, start=0, stop=3)
    assert capsys.readouterr() == ("", "")


def test_a_full_disk_names_the_workdir(tmp_path):
    reporter = Reporter(tmp_path, total_steps=1, quiet=True)
    reporter._file.close()
    with open("/dev/full", "wb", buffering=0) as full:
        reporter._file = io.TextIOWrapper(full, write_through=True)
        with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}'"):
            reporter.train(1, {"loss": 1.0})
    reporter.close()


def test_a_message_that_nobody_reads_does_not_end_the_run(tmp_path, monkeypatch):
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stderr", Broken())
    reporter = Reporter(tmp_path, total_steps=1)
    reporter.train(1, {"loss": 1.0})
    reporter.close()
    assert [line["step"] for line in read(tmp_path)] == [1]
