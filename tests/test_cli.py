import dataclasses
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from tiny_run import free_port, two_processes

from flaxformer_mt import average, cli, evaluate, score, translate
from flaxformer_mt.checkpoints import averaging
from flaxformer_mt.config import Config, save_config
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.evaluation.quality_flags import Flag, FlagLimits
from flaxformer_mt.runtime.line_output import line_output
from flaxformer_mt.translation.config import DecodingConfig
from flaxformer_mt.translation.results import Hypothesis, TokenDetails
from flaxformer_mt.translation.translator import Translator

PYTHON_FORMAT = warnings.formatwarning
ODD_LINES = [
    "Hello .",
    "",
    "   ",
    "no\rbreak\x0bat\x0call\x1c\x85\u2028\u2029here",
    "\ufeffmark",
    "tab\tand\x00null",
    "👩\u200d👧 e\u0301 ﷽",
    "x" * 5000,
]


class Pair(NamedTuple):
    score: float
    log_prob: float
    tokens: list[int]
    details: TokenDetails | None = None
    flags: None = None


DETAILS = TokenDetails(["a", "</s>"], ["A", "</s>"], [-0.5, -1.0], np.eye(2, dtype=np.float32))


ECHO = Hypothesis("a", [3], -0.5)
NO_SCORE = Pair(-1.0, -2.0, [1])


@pytest.fixture
def heard_signals() -> Iterator[None]:
    """Makes SIGINT heard, which a shell ignores in the jobs that it starts in the background."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


class Shouter:
    """Replaces a Translator: translates into capital letters.

    The prefix comes first and the constraints last; a sentence with "?" has a flag.
    """

    def __init__(self) -> None:
        self.config = DecodingConfig()
        self.loaded: list[tuple[str, str]] = []
        self.members: tuple[int, tuple[float, ...]] | None = None
        self.checkpoint = "averaged"
        self.calls: list[dict[str, Any]] = []
        self.interrupt: int | None = None
        self.first_batch: int | None = None

    fingerprint = "parameters"
    tokenizer = SimpleNamespace(needs_tag=False, languages=("zh",))

    def load(self, workdir: str, *, checkpoint: str, dtype: str | None) -> "Shouter":
        self.loaded.append((workdir, checkpoint))
        return self

    def ensemble(self, members: list["Shouter"], weights: tuple[float, ...]) -> "Shouter":
        self.members = len(members), weights
        return self

    def check(self, sentences: list[str], **demands: object) -> None:
        self.checked = len(sentences), demands

    def translate(self, sentences: list[str], **given: Any) -> list[list[Hypothesis]]:
        self.calls.append({"sentences": sentences, **given})
        self.fail(sentences, given["first_line"])
        details = DETAILS if given.get("details") else None
        nothing = [""] * len(sentences), [[]] * len(sentences)
        prefixes = given.get("prefixes", nothing[0])
        constraints = given.get("constraints", nothing[1])
        found = []
        for sentence, prefix, phrases in zip(sentences, prefixes, constraints, strict=True):
            text = " ".join([prefix, sentence.upper(), *phrases])
            flags = None
            if self.config.flag_faults:
                flags = (Flag("loop", "'?' is odd"),) * ("?" in sentence)
            found.append(
                [
                    Hypothesis(
                        " ".join(text.split()) + "!" * k,
                        [3],
                        -0.5 - k,
                        flags=flags,
                        details=details,
                    )
                    for k in range(self.config.num_hypotheses)
                ]
            )
        return found

    def fail(self, sentences: list[str], first_line: int) -> None:
        """Interrupts the second batch, as a signal during a long search would."""
        if self.first_batch is None or first_line < self.first_batch:
            self.first_batch = first_line
        if self.interrupt and first_line > self.first_batch:
            number, self.interrupt, self.first_batch = self.interrupt, None, None
            os.kill(os.getpid(), number)
            time.sleep(60)
        if "error" in sentences:
            raise ValueError("an error")

    def score(
        self,
        sources: list[str],
        targets: list[str],
        *,
        target_language: str | None,
        details: bool,
        first_line: int,
    ) -> list[Pair]:
        self.fail(sources, first_line)
        of_pair = DETAILS if details else None
        return [Pair(-float(len(t)), -2.0 * len(t), [1] * len(t), of_pair) for t in targets]


@pytest.fixture
def shouter(monkeypatch: pytest.MonkeyPatch) -> Shouter:
    shouter = Shouter()
    monkeypatch.setattr(Translator, "load", shouter.load)
    monkeypatch.setattr(Translator, "ensemble", shouter.ensemble)
    return shouter


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_translate(work: Path, content: bytes, *args: str) -> bytes:
    (work / "in").write_bytes(content)
    assert translate.main(["--workdir", "w", "--input", "in", "--output", "out", *args]) == 0
    return (work / "out").read_bytes()


class TestMain:
    def test_help_names_the_commands(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["--help"]) == 0
        text = capsys.readouterr().out
        assert all(name in text for name in ("train", "translate", "score", "evaluate", "average"))

    @pytest.mark.parametrize(
        "args",
        [
            ["train", "--config=demo", "--workdir=gx://bucket/run"],
            ["translate", "--workdir", "gx://bucket/run"],
            ["average", "--workdir=gx://bucket/run", "--last=2"],
            ["convert", "--to=ctranslate2", "--workdir=w", "--output", "gx://bucket/export"],
        ],
    )
    def test_an_unknown_address_is_no_local_folder(
        self, work: Path, args: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert cli.main(args) == 2
        assert "gx:// is no known kind of address; expected" in capsys.readouterr().err
        assert os.listdir(work) == []
        with pytest.raises(ValueError, match="gx:// is no known kind"):
            Translator.load(Path("gx://bucket/run"))

    def test_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["--version"]) == 0
        assert capsys.readouterr().out.strip().count(".") == 2

    def test_unknown_command_names_the_nearest(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["transalte"]) == 2
        assert "did you mean translate?" in capsys.readouterr().err

    def test_other_unknown_command_names_all_in_the_order_of_use(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert cli.main(["nope"]) == 2
        assert capsys.readouterr().err.endswith(f"choose from {', '.join(cli.COMMANDS)}\n")

    def test_the_command_gets_the_other_arguments(self, work: Path, shouter: Shouter) -> None:
        (work / "in").write_text("a\n")
        assert cli.main(["translate", "--workdir", "w", "--input=in", "--output=out"]) == 0
        assert (work / "out").read_text() == "A\n"

    @pytest.mark.parametrize(
        ("command", "flags"),
        [
            (
                "translate",
                "workdir weights input output prefix constraints beam-size length-penalty "
                "num-hypotheses json details attention checkpoint",
            ),
            (
                "score",
                "workdir weights source target length-penalty json details attention checkpoint",
            ),
            (
                "evaluate",
                "workdir weights source reference beam-size tokenize lowercase json checkpoint",
            ),
            ("average", "workdir last best"),
        ],
    )
    def test_help_of_each_command_is_complete(
        self, command: str, flags: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as stop:
            cli.main([command, "--help"])
        assert stop.value.code == 0
        text = capsys.readouterr().out
        assert all(f"--{flag} " in text for flag in flags.split())
        if command in ("translate", "score", "evaluate"):
            for where, kind in (("decoding", DecodingConfig), ("decoding.guard", FlagLimits)):
                for field in dataclasses.fields(kind):
                    flag = f"--{where}.{field.name.replace('_', '-')} "
                    assert flag in text or field.name == "guard"

    def test_help_shows_no_none(self, capsys: pytest.CaptureFixture[str]) -> None:
        """None is Python's word for a flag that is not given."""
        for command in cli.COMMANDS:
            with pytest.raises(SystemExit):
                cli.main([command, "--help"])
            assert "None" not in capsys.readouterr().out, command

    def test_a_file_in_place_of_a_workdir_names_the_flags_for_text(
        self, work: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (work / "a.en").write_text("a\n")
        assert translate.main(["--workdir", "w", "a.en"]) == 2
        message = capsys.readouterr().err
        assert "a.en is a file: expected the --workdir" in message and "--input" in message

    @pytest.mark.parametrize("name", cli.COMMANDS)
    def test_every_listed_command_has_a_module(
        self, name: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as stop:
            cli.main([name, "--help"])
        assert stop.value.code == 0
        assert f"python -m flaxformer_mt.{name} " in capsys.readouterr().out

    def test_misspelt_flag_names_the_nearest(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as stop:
            translate.main(["--workdir", "w", "--beem-size", "3"])
        assert stop.value.code == 2
        assert "--beam-size" in capsys.readouterr().err

    @pytest.mark.parametrize("words", ["train --config", "translate --workdir", "train --workdir"])
    def test_an_empty_file_name_is_refused(
        self, words: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert cli.main([*words.split(), ""]) == 2
        assert f'{words.split()[1]} "" names no file' in capsys.readouterr().err

    @pytest.mark.parametrize("words", ["translate in.txt --workdir w", "train demo", "convert a"])
    def test_a_value_without_a_flag_is_refused(
        self, words: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert cli.main(words.split()) == 2
        assert f"'{words.split()[1]}' comes before all flags" in capsys.readouterr().err

    def test_commands_start_without_jax(self) -> None:
        commands = "from flaxformer_mt import average, cli, evaluate, score, translate"
        check = f"import sys; {commands}; sys.exit('jax' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", check]).returncode == 0

    def test_a_translator_imports_nothing_that_it_does_not_use(self) -> None:
        unused = {"scipy", "sacrebleu", "grain", "tensorflow_datasets", "tensorboardX", "tqdm"}
        check = (
            "import sys; from flaxformer_mt import Translator; "
            f"print(*{unused!r} & set(sys.modules))"
        )
        done = subprocess.run([sys.executable, "-c", check], stdout=subprocess.PIPE, text=True)
        assert done.returncode == 0 and done.stdout == "\n", done.stdout


class TestExitCode:
    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (ValueError("3 is too many"), "error: 3 is too many\n"),
            (FileNotFoundError("no file x"), "error: no file x\n"),
            (
                OSError(28, "No space left on device", "x"),
                "error: x: No space left on device. Free some space there, or choose another disk, "
                "and start the command again. It continues after the finished parts; translate, "
                "score and evaluate need --resume for this\n",
            ),
        ],
    )
    def test_bad_input_is_one_message_and_code_2(
        self, error: Exception, message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def work() -> None:
            raise error

        assert cli.exit_code(work) == 2
        assert capsys.readouterr().err == message

    def test_too_little_memory_is_one_message(self, capsys: pytest.CaptureFixture[str]) -> None:
        def too_large_for_numpy() -> None:
            raise MemoryError  # as Python and NumPy do

        for work in (lambda: jnp.zeros(1 << 45) and None, too_large_for_numpy):
            assert cli.exit_code(work) == 2
            message = capsys.readouterr().err
            assert message.startswith("error: out of memory: ")
            for advice in ("--mesh.memory-limit", "--decoding.tokens-per-batch", "--resume"):
                assert advice in message

    def test_debugging_shows_the_traceback(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse() -> None:
            raise ValueError("no")

        monkeypatch.setenv(cli.DEBUG, "1")
        with pytest.raises(ValueError):
            cli.exit_code(refuse)

    def test_a_second_interruption_ends_the_process(self) -> None:
        def work() -> None:
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL

        assert cli.exit_code(work) == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_bugs_keep_their_traceback(self) -> None:
        with pytest.raises(ZeroDivisionError):
            cli.exit_code(lambda: print(1 // 0))

    @pytest.mark.filterwarnings("default")
    def test_warnings_are_one_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = lambda *args, **_: print(
                warnings.formatwarning(*args[:4]), end="", file=sys.stderr
            )
            assert cli.exit_code(lambda: warnings.warn("line 3 is long", stacklevel=1)) == 0
        assert capsys.readouterr().err == "warning: line 3 is long\n"
        assert warnings.formatwarning is PYTHON_FORMAT

    def test_a_closed_pipe_is_no_error(self) -> None:
        code = "from flaxformer_mt import cli; cli.exit_code(lambda: print('x' * 10**6))"
        done = subprocess.run(
            f'{sys.executable} -c "{code}" | head -c 1', shell=True, capture_output=True, text=True
        )
        assert (done.stdout, done.stderr) == ("x", "")


class TestTranslate:
    @pytest.mark.parametrize("end", ["", "\n"])
    def test_one_line_out_for_each_line_in(self, work: Path, shouter: Shouter, end: str) -> None:
        out = run_translate(work, ("\n".join(ODD_LINES) + end).encode())
        expected = [" ".join(line.upper().split()) for line in ODD_LINES]
        assert out.decode() == "\n".join(expected) + end
        assert shouter.calls[0]["sentences"] == ODD_LINES

    @pytest.mark.parametrize("content", [b"", b"\n", b"\n\n", b"a", b"\r\n", b"a\r\nb\r\n"])
    def test_counts_agree_however_the_text_ends(
        self, work: Path, shouter: Shouter, content: bytes
    ) -> None:
        out = run_translate(work, content)
        assert out.count(b"\n") == content.count(b"\n")
        assert out.endswith(b"\n") == content.endswith(b"\n")
        assert b"\r" not in out

    def test_an_empty_input_is_mentioned(
        self, work: Path, shouter: Shouter, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run_translate(work, b"")
        assert "the input has no lines\n" in capsys.readouterr().err
        run_translate(work, b"\n")
        assert "no lines" not in capsys.readouterr().err

    def test_large_input_is_translated_in_parts_with_its_line_numbers(
        self, work: Path, shouter: Shouter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(translate, "LINES_AT_ONCE", 3)
        assert run_translate(work, b"a\nb\nc\nd\n") == b"A\nB\nC\nD\n"
        assert [call["first_line"] for call in shouter.calls] == [1, 4]

    def test_options_reach_the_search(self, work: Path, shouter: Shouter) -> None:
        args = ["--beam-size=7", "--length-penalty=1.5", "--checkpoint=last"]
        run_translate(work, b"a\n", *args)
        assert shouter.loaded == [("w", "last")]
        assert shouter.members == (1, ())
        assert (shouter.config.beam_size, shouter.config.length_penalty) == (7, 1.5)

    def test_search_settings_default_to_those_of_the_workdir(
        self, work: Path, shouter: Shouter, capsys: pytest.CaptureFixture[str]
    ) -> None:
        config = DecodingConfig(beam_size=3, length_penalty=1.25, forbidden=(5, 7), top_k=0)
        save_config(Config(decoding=config), "w")
        save_config(Config(decoding=DecodingConfig(beam_size=9)), "v")
        run_translate(work, b"a\n")
        assert shouter.config == config
        run_translate(work, b"a\n", "--decoding.no-repeat-ngram-size=4", "--decoding.flag-faults")
        changed = dataclasses.replace(config, no_repeat_ngram_size=4, flag_faults=True)
        assert shouter.config == changed
        guard = ["--decoding.guard.max-length-ratio", "5", "--decoding.forbidden"]
        run_translate(work, b"a\n", *guard, "--workdir", "w", "v")
        assert shouter.config == dataclasses.replace(
            config, guard=FlagLimits(max_length_ratio=5.0), forbidden=()
        )
        with pytest.raises(SystemExit):
            translate.main(["--workdir=w", "--help"])
        assert "Alpha of the length penalty" in (text := capsys.readouterr().out)
        assert "(default: 1.25)" in " ".join(text.replace("│", " ").split())

    def test_several_workdirs_are_an_ensemble(self, work: Path, shouter: Shouter) -> None:
        args = ["--workdir", "w", "v/u", "--weights", "3", "0.5", "--checkpoint=best"]
        run_translate(work, b"a\n", *args)
        assert shouter.loaded == [("w", "best"), ("v/u", "best")]
        assert shouter.members == (2, (3.0, 0.5))

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (["--workdir"], "--workdir needs the directory of a trained model"),
            (["--workdir=w", "--decoding.beam-size=0"], "beam_size must be at least 1"),
            (["--workdir=w", "--decoding.strategy=guess"], "sample_distinct"),
            (
                ["--workdir=w", "--decoding.seed=4294967296"],
                "at most 4294967295, got 4294967296",
            ),
            (["--workdir=w", "--decoding.beem-size=2"], "--decoding.beam-size"),
            (["--workdir=w", "--details"], "add --json"),
            (["--workdir=w", "--attention"], "add --json"),
            (["--workdir=w", "--resume"], "it needs --output"),
        ],
    )
    def test_impossible_settings_are_refused(
        self, work: Path, args: list[str], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as stop:
            translate.main(args)
        assert stop.value.code == 2
        assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())

    def test_prefixes_and_constraints_go_with_their_lines(
        self, work: Path, shouter: Shouter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(translate, "LINES_AT_ONCE", 2)
        (work / "p").write_bytes("Der\n\n\u2028\n".encode())
        (work / "c").write_bytes(b"\nx y\tz\n\t\r\n")
        out = run_translate(work, b"a\nb\nc", "--prefix=p", "--constraints", "c")
        assert out == b"Der A\nB x y z\nC"
        assert [call["prefixes"] for call in shouter.calls] == [["Der", ""], ["\u2028"]]
        constraints = [call["constraints"] for call in shouter.calls]
        assert constraints == [[[""], ["x y", "z"]], [["", ""]]]

    def test_any_input_line_gives_one_output_line(
        self,
        work: Path,
        shouter: Shouter,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr(translate, "LINES_AT_ONCE", 3)
        draw = random.Random(0)

        def text(number: int) -> bytes:
            ends = draw.choices(["\n", "\r\n"], k=number - 1) + [draw.choice(["", "\n", "\r\n"])]
            lines = draw.choices([*ODD_LINES, "a?", "\t", "\u3000"], k=number - 1) + ["end"]
            return "".join(map("".join, zip(lines, ends, strict=True))).encode()

        for _ in range(30):
            number = draw.randint(1, 9)
            others = draw.choices([number, number + 1], [8, 1], k=2)
            for name, of_file in zip(("p", "c"), others, strict=True):
                (work / name).write_bytes(text(of_file))
            content = text(number)
            (work / "in").write_bytes(content)
            (work / "out").unlink(missing_ok=True)
            args = ["--workdir=w", "--input=in", "--output=out", "--prefix=p", "--constraints=c"]
            status = translate.main([*args, *draw.choice([[], ["--json", "--details"]])])
            if others == [number, number]:
                assert status == 0
                assert (work / "out").read_bytes().count(b"\n") == content.count(b"\n")
            else:
                wrong = "p" if others[0] != number else "c"
                lines = "1 line" if number == 1 else f"{number} lines"
                counts = f"in has {lines} but {wrong} has {number + 1}"
                assert status == 2
                assert counts in capsys.readouterr().err
                assert not (work / "out").exists()

    @pytest.mark.usefixtures("heard_signals")
    @pytest.mark.parametrize("args", [[], ["--json"], ["--num-hypotheses=2"]])
    @pytest.mark.parametrize("content", [b"a\nb\nc\nd\ne\n", b"a\nb\n\nd\ne"])
    def test_an_interrupted_run_keeps_its_lines_and_goes_on_after_them(
        self,
        work: Path,
        shouter: Shouter,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        args: list[str],
        content: bytes,
    ) -> None:
        monkeypatch.setattr(translate, "LINES_AT_ONCE", 2)
        whole = run_translate(work, content, *args)
        (work / "out").write_text("precious")
        command = ["--workdir=w", "--input=in", "--output=out", *args]
        for number in (signal.SIGTERM, signal.SIGINT):
            shouter.interrupt = number  # in the next batch but one
            assert translate.main([*command, "--resume"]) == 128 + number
            kept = (work / "out.partial").read_bytes()
            assert kept and whole.startswith(kept)
            message = capsys.readouterr().err
            assert f"lines are in {work.resolve()}/out.partial: the same" in message
            assert "--resume" in message and "interrupted" in message
        assert (work / "out").read_text() == "precious"
        assert translate.main(command) == 2
        assert "add --resume to go on after them" in capsys.readouterr().err
        assert (work / "out.partial").read_bytes() == kept
        (work / "out.partial").write_bytes(kept + b"half a li")
        shouter.calls.clear()
        assert translate.main([*command, "--resume"]) == 0
        assert (work / "out").read_bytes() == whole
        assert not (work / "out.partial").exists()
        assert sum(len(call["sentences"]) for call in shouter.calls) < 5

    def test_a_failure_keeps_what_is_done_and_nothing_is_no_partial_file(
        self, work: Path, shouter: Shouter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(translate, "LINES_AT_ONCE", 2)
        (work / "in").write_text("a\nb\nerror\n")
        command = ["--workdir=w", "--input=in", "--output=out"]
        assert translate.main(command) == 2
        assert (work / "out.partial").read_text() == "A\nB\n"
        (work / "out.partial").write_bytes(b"")  # killed before anything was written
        (work / "in").write_text("error\n")
        assert translate.main(command) == 2
        assert os.listdir(work) == ["in"]

    def test_score_and_evaluate_go_on_too(
        self, work: Path, shouter: Shouter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(score, "PAIRS_AT_ONCE", 2)
        monkeypatch.setattr(evaluate, "LINES_AT_ONCE", 2)
        save_config(Config(), "w")
        (work / "s").write_text("a\nb\nc\nd\n")
        (work / "t").write_text("a\nbb\nccc\ndd\n")
        for main, texts in (
            (score.main, ["--source=s", "--target=t"]),
            (evaluate.main, ["--source=s", "--reference=t"]),
        ):
            command = ["--workdir=w", *texts, "--output=out"]
            assert main(command) == 0
            whole = (work / "out").read_bytes()
            shouter.interrupt = signal.SIGTERM
            assert main(command) == 143
            assert (work / "out.partial").read_bytes().count(b"\n") == 2
            assert main([*command, "--resume"]) == 0
            assert (work / "out").read_bytes() == whole

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            (
                lambda work: (work / "in").write_text("a\nb\nc\nX\n"),
                "content of --input has changed",
            ),
            (lambda work: ["--beam-size=2"], "--beam-size: None -> 2"),
            (lambda work: ["--decoding.seed=5"], "--decoding.seed: 0 -> 5"),
            (lambda work: ["--json"], "--json: False -> True"),
            (lambda work: "other parameters", "model in --workdir has changed"),
            (lambda work: (work / "out.partial.settings").unlink(), "cannot be read"),
        ],
    )
    def test_only_the_same_run_goes_on(
        self,
        work: Path,
        shouter: Shouter,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        change: Any,
        named: str,
    ) -> None:
        monkeypatch.setattr(translate, "LINES_AT_ONCE", 2)
        (work / "in").write_text("a\nb\nc\nerror\n")
        command = ["--workdir=w", "--input=in", "--output=out"]
        assert translate.main(command) == 2
        made = change(work)
        args = made if isinstance(made, list) else []
        if isinstance(made, str):
            shouter.fingerprint = made
        capsys.readouterr()
        assert translate.main([*command, *args, "--resume"]) == 2
        message = capsys.readouterr().err
        assert named in message and "out.partial to start again" in message
        assert (work / "out.partial").read_text() == "A\nB\n"
        assert "--resume goes on" not in message

    def test_settings_that_change_speed_alone_may_change(
        self, work: Path, shouter: Shouter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(translate, "LINES_AT_ONCE", 2)
        (work / "in").write_text("a\nb\nc\nd\n")
        command = ["--workdir=w", "--input=in", "--output=out"]
        shouter.interrupt = signal.SIGTERM
        assert translate.main(command) == 143
        assert translate.main([*command, "--resume", "--decoding.tokens-per-batch=99"]) == 0
        assert (work / "out").read_text() == "A\nB\nC\nD\n"
        assert sorted(os.listdir(work)) == ["in", "out"]

    @pytest.mark.parametrize("args", [[], ["--json"], ["--num-hypotheses=2"], ["--prefix=p"]])
    @pytest.mark.parametrize("content", [b"a\nb\n\nd\ne\n", b"a\nb", b"", b"\xef\xbb\xbf", b"a"])
    def test_shards_concatenate_to_the_whole_output(
        self,
        work: Path,
        shouter: Shouter,
        monkeypatch: pytest.MonkeyPatch,
        args: list[str],
        content: bytes,
    ) -> None:
        monkeypatch.setattr(translate, "LINES_AT_ONCE", 2)
        (work / "p").write_bytes(content.removeprefix(b"\xef\xbb\xbf"))
        whole = run_translate(work, content, *args)
        for shards in (1, 2, 3, 7):
            parts = b""
            for number in range(1, shards + 1):
                parts += run_translate(work, content, *args, f"--shard={number}/{shards}")
            assert parts == whole

    def test_shards_of_scores_and_wrong_shards(
        self, work: Path, shouter: Shouter, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (work / "s").write_text("a\nb\nc\n")
        (work / "t").write_text("a\nbb\nccc\n")
        command = ["--workdir=w", "--source=s", "--target=t"]
        for number, expected in ((1, "-1.000000\n"), (2, "-2.000000\n-3.000000\n")):
            assert score.main([*command, "--output=out", f"--shard={number}/2"]) == 0
            assert (work / "out").read_text() == expected
        for wrong in ("0/2", "3/2", "2", "a/b", "1/0", "-1/2"):
            assert score.main([*command, f"--shard={wrong}"]) == 2
            assert "such as 2/4, got" in capsys.readouterr().err

    def test_a_second_process_does_not_write_to_the_same_file(
        self, work: Path, shouter: Shouter, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with line_output("out") as output:
            output.begin({})
            output.write(["A"])
            (work / "in").write_text("a\n")
            for more in ([], ["--resume"]):
                args = ["--workdir=w", "--input=in", "--output=out", *more]
                assert translate.main(args) == 2
                assert "another process writes" in capsys.readouterr().err
        assert (work / "out").read_text() == "A\n"

    def test_an_input_is_never_the_output(
        self, work: Path, shouter: Shouter, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name in ("in", "t"):
            (work / name).write_text("a\n")
        (work / "link").symlink_to("in")
        for output in ("in", "./in", "link"):
            assert translate.main(["--workdir=w", "--input=in", f"--output={output}"]) == 2
            assert "is also an input" in capsys.readouterr().err
        assert score.main(["--workdir=w", "--source=in", "--target=t", "--output=t"]) == 2
        assert "--output t is also an input" in capsys.readouterr().err
        assert (work / "in").read_text() == (work / "t").read_text() == "a\n"

    def test_memory_does_not_grow_with_the_file(
        self, work: Path, shouter: Shouter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Shouter, "translate", lambda self, lines, **_: [[ECHO]] * len(lines))
        monkeypatch.setattr(Shouter, "score", lambda self, lines, *_, **__: [NO_SCORE] * len(lines))
        save_config(Config(), "w")
        monkeypatch.setattr(translate, "LINES_AT_ONCE", 100)
        monkeypatch.setattr(score, "PAIRS_AT_ONCE", 100)
        for name in ("source", "prefix"):
            (work / name).write_text(f"{'word ' * 200}\n" * 5_000)  # 5 MB
        for main, args in (
            (translate.main, ["--input=source", "--prefix=prefix"]),
            (score.main, ["--source=source", "--target=prefix"]),
        ):
            tracemalloc.start()
            assert main(["--workdir=w", "--output=out", *args]) == 0
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert (work / "out").read_bytes().count(b"\n") == 5_000
            assert peak < 2.5e6

    def test_a_typed_line_is_translated_before_the_next_is_typed(
        self, work: Path, shouter: Shouter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        typed, lines = os.pipe()
        answers, answer = os.pipe()
        status: list[int] = []
        command = threading.Thread(target=lambda: status.append(translate.main(["--workdir=w"])))
        with (
            os.fdopen(typed) as stdin,
            os.fdopen(answer, "w") as stdout,
            os.fdopen(answers, "rb") as screen,
            monkeypatch.context() as patched,
        ):
            patched.setattr(sys, "stdin", stdin)
            patched.setattr(sys, "stdout", stdout)
            command.start()
            for given, expected in ((b"a\n", b"A\n"), (b"b\n\n", b"B\n\n"), (b"d", b"D")):
                os.write(lines, given)
                if not given.endswith(b"\n"):
                    os.close(lines)
                assert screen.read(len(expected)) == expected
            command.join()
        assert status == [0]
        assert [call["first_line"] for call in shouter.calls][:2] == [1, 2]

    def test_flags_go_to_standard_error_or_json(
        self, work: Path, shouter: Shouter, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run_translate(work, b"a\nb?\n")
        assert capsys.readouterr().err == ""
        flagging = ["--decoding.flag-faults", "--num-hypotheses=2"]
        assert run_translate(work, b"a\nb?\n", *flagging).count(b"\n") == 4
        printed = [f"line 2, hypothesis {number}: loop: '?' is odd" for number in (1, 2)]
        assert capsys.readouterr().err.splitlines() == printed
        out = run_translate(work, b"a\nb?\n", *flagging, "--json")
        assert capsys.readouterr().err == ""
        flags = [json.loads(line)["hypotheses"][0]["flags"] for line in out.splitlines()]
        assert flags == [[], [{"kind": "loop", "reason": "'?' is odd"}]]

    def test_details_in_json(self, work: Path, shouter: Shouter) -> None:
        expected = {
            "source_tokens": ["a", "</s>"],
            "tokens": ["A", "</s>"],
            "token_log_probs": [-0.5, -1.0],
            "alignment": [[0, 0]],
        }
        (found,) = json.loads(run_translate(work, b"a\n", "--json", "--details"))["hypotheses"]
        assert found == {"text": "A", "score": -0.5, **expected}
        (found,) = json.loads(run_translate(work, b"a\n", "--json", "--attention"))["hypotheses"]
        assert found["attention"] == [[1.0, 0.0], [0.0, 1.0]]
        args = ["--workdir=w", "--source=in", "--target=in", "--output=out", "--json"]
        assert score.main([*args, "--details"]) == 0
        found = json.loads((work / "out").read_text())
        assert {name: found[name] for name in expected} == expected
        assert "attention" not in found

    def test_n_best_lines(self, work: Path, shouter: Shouter) -> None:
        out = run_translate(work, b"a\nb\n", "--num-hypotheses", "2")
        assert out.decode() == (
            "0 ||| A ||| -0.500000\n0 ||| A! ||| -1.500000\n"
            "1 ||| B ||| -0.500000\n1 ||| B! ||| -1.500000\n"
        )

    def test_json_is_one_object_a_line(self, work: Path, shouter: Shouter) -> None:
        out = run_translate(work, "ä\n\n".encode(), "--json", "--num-hypotheses=2")
        first, second = map(json.loads, out.decode().splitlines())
        assert first["source"] == "ä"
        assert first["hypotheses"][1] == {"text": "Ä!", "score": -1.5}
        assert second["source"] == ""

    @pytest.mark.parametrize(
        ("content", "status", "answer"),
        [
            (b"", 0, repr(([], True))),
            ("\ufeffä\u2028b\r\n\nc".encode(), 0, repr((["ä\u2028b", "", "c"], False))),
            (b"good\nb\xe4d\n", 2, "error: standard input, line 2: not UTF-8 (byte 0xe4 at"),
            ("\ufeffü\n".encode("utf-16-le"), 2, "standard input is UTF-16, not UTF-8; convert"),
        ],
    )
    def test_standard_input_and_output(self, content: bytes, status: int, answer: str) -> None:
        code = (
            "import sys; from flaxformer_mt import cli\n"
            "from flaxformer_mt.runtime.line_input import TextFile\n"
            "from flaxformer_mt.runtime.line_output import line_output\n"
            "def work():\n"
            "    text = TextFile('')\n"
            "    with line_output('') as output:\n"
            "        output.write([repr((list(text.lines()), text.final_newline))])\n"
            "sys.exit(cli.exit_code(work))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            input=content,
            capture_output=True,
            env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"},
        )
        assert done.returncode == status
        assert answer in (done.stderr if status else done.stdout).decode()

    def test_invalid_utf8_is_found_before_any_work(
        self, work: Path, shouter: Shouter, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (work / "in").write_bytes(b"good\nb\xe4d\n")
        assert translate.main(["--workdir", "w", "--input", "in", "--output", "out"]) == 2
        assert "in, line 2: not UTF-8 (byte 0xe4 at position 2)" in capsys.readouterr().err
        assert not shouter.loaded
        assert not (work / "out").exists()

    def test_missing_input_says_what_is_there(
        self, work: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (work / "test.en").touch()
        assert translate.main(["--workdir", "w", "--input", "tset.en"]) == 2
        assert "no file tset.en" in (message := capsys.readouterr().err)
        assert "test.en" in message.split("holds:")[1]
        assert "Traceback" not in message

    def test_missing_workdir_is_a_clean_error(
        self, work: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (work / "in").write_text("a\n")
        assert translate.main(["--workdir", "nowhere", "--input", "in"]) == 2
        assert "nowhere does not exist" in capsys.readouterr().err
        assert translate.main(["--workdir", "in"]) == 2
        assert "in is a file: expected the --workdir" in capsys.readouterr().err

    def test_a_home_directory_after_an_equals_sign(
        self, work: Path, shouter: Shouter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(work))
        run_translate(work, b"a\n", "--workdir=~/w")
        assert shouter.loaded == [(f"{work}/w", "auto")]


class TestOutput:
    def test_a_full_disk_keeps_the_finished_lines_and_says_so(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)

        def work() -> None:
            with line_output(str(tmp_path / "out")) as output:
                output.begin({})
                output.write(["one", "two"])
                resource.setrlimit(resource.RLIMIT_FSIZE, (100, unlimited[1]))  # as a full disk
                output.write(["x" * 200])

        try:
            assert cli.exit_code(work) == 2
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        finished, error = capsys.readouterr().err.splitlines()
        assert finished.startswith("the results of the first 2 lines are in")
        assert error.startswith(f"error: {tmp_path / 'out.partial'}: File too large. Free some")
        with line_output(str(tmp_path / "out"), resume=True) as output:
            output.begin({})
            assert output.num_done == 2
            output.write(["three"])
        assert (tmp_path / "out").read_text() == "one\ntwo\nthree\n"

    def test_failure_leaves_the_earlier_file_and_the_finished_lines(self, work: Path) -> None:
        (work / "out").write_text("precious")
        with pytest.raises(ValueError), line_output("out") as output:
            output.write(["half"])
            raise ValueError
        assert (work / "out").read_text() == "precious"
        assert (work / "out.partial").read_text() == "half\n"

    def test_a_failed_upload_names_the_file_with_the_results(
        self,
        object_store: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        address = f"{object_store}://missing/out"
        with pytest.raises(OSError), line_output(address) as output:
            output.write(["one", "two"])
        error = capsys.readouterr().err
        assert (found := re.search(f"all 2 results are in (.*), but not in {address}", error))
        assert Path(found[1]).read_text() == "one\ntwo\n"
        assert Path(found[1]).is_relative_to(tmp_path)

    def test_an_address_of_a_file_is_its_path(self, work: Path) -> None:
        with line_output((work / "out").as_uri()) as output:
            output.write(["x"])
        assert (work / "out").read_text() == "x\n"

    def test_symbolic_links_and_pipes_stay_what_they_are(self, work: Path) -> None:
        (work / "link").symlink_to("real")
        with line_output("link") as output:
            output.write(["x"])
        assert (work / "link").is_symlink()
        assert (work / "real").read_text() == "x\n"
        with line_output(os.devnull) as output:
            output.write(["x"])
        assert not Path(os.devnull).is_file()

    def test_place_that_cannot_be_written_is_known_before_any_work(
        self, work: Path, shouter: Shouter, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (work / "in").write_text("a\n")
        assert translate.main(["--workdir=w", "--input=in", "--output=no/out"]) == 2
        assert "no directory" in capsys.readouterr().err
        assert translate.main(["--workdir=w", "--input=in", "--output=."]) == 2
        assert "expected the name of the file to write" in capsys.readouterr().err
        assert not shouter.loaded


class TestScore:
    def test_one_score_a_pair(self, work: Path, shouter: Shouter) -> None:
        (work / "s").write_text("a\nb\n")
        (work / "t").write_text("xx\nyyy\n")
        args = ["--workdir=w", "--source=s", "--target=t", "--output=out"]
        assert score.main(args) == 0
        assert (work / "out").read_text() == "-2.000000\n-3.000000\n"
        assert score.main([*args, "--json"]) == 0
        assert json.loads((work / "out").read_text().splitlines()[1]) == {
            "source": "b",
            "target": "yyy",
            "score": -3.0,
            "log_prob": -6.0,
            "num_tokens": 3,
        }

    def test_unequal_files_give_both_counts(
        self, work: Path, shouter: Shouter, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (work / "s").write_text("a\nb\n")
        (work / "t").write_text("x\n")
        assert score.main(["--workdir=w", "--source=s", "--target=t"]) == 2
        assert "s has 2 lines but t has 1" in capsys.readouterr().err
        assert score.main(["--workdir=w", "--source=t", "--target=s"]) == 2
        assert "t has 1 line but s has 2" in capsys.readouterr().err
        assert not shouter.loaded


@pytest.mark.parametrize("command", ["score", "evaluate"])
def test_an_empty_file_is_named_once(
    command: str, work: Path, shouter: Shouter, capsys: pytest.CaptureFixture[str]
) -> None:
    save_config(Config(), "w")
    (work / "s").write_text("")
    other = "--target=s" if command == "score" else "--reference=s"
    assert cli.main([command, "--workdir=w", "--source=s", other]) == 2
    assert capsys.readouterr().err == "error: s has no lines\n"


@pytest.mark.parametrize("command", ["translate", "score", "evaluate"])
def test_a_missing_tag_is_found_before_the_first_line(
    command: str, work: Path, shouter: Shouter, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(lines: list[str], *_: object, first_line: int, **__: object) -> list[str]:
        for number, line in enumerate(lines, first_line):
            if not line.startswith(">>"):
                raise ValueError(f"line {number} has no tag")
        return lines

    shouter.tokenizer = SimpleNamespace(needs_tag=True)
    shouter.check = lambda lines, *, first_line, **_: refuse(lines, first_line=first_line)
    lines = ">>fr<< a\n" * 1500 + "b\n"
    for name in "st":
        (work / name).write_text(lines)
    save_config(Config(), "w")
    files = {
        "translate": ["--input=s"],
        "score": ["--source=s", "--target=t"],
        "evaluate": ["--source=s", "--reference=t"],
    }[command]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flaxformer_mt.translation.segments.tag_lines", refuse)
        assert cli.main([command, "--workdir=w", *files, "--output=out"]) == 2
    assert "line 1501 has no tag" in capsys.readouterr().err
    assert not shouter.calls


class TestEvaluate:
    @pytest.fixture
    def trained(self, work: Path, shouter: Shouter) -> Path:
        (work / "test.en").write_text("hello my dear old friend\n")
        (work / "test.de").write_text("HELLO MY DEAR OLD FRIEND\n")
        (work / "other.de").write_text("hello my dear old friend\n")
        test = CorpusConfig(source=("test.en",), target=("test.de",))
        save_config(Config(data=DataConfig(directory=str(work), test=test)), "w")
        return work

    def evaluate_json(self, capsys: pytest.CaptureFixture[str], *args: str) -> dict:
        assert evaluate.main(["--workdir=w", "--json", *args]) == 0
        return json.loads(capsys.readouterr().out)

    def test_blank_references_are_refused(
        self, trained: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (trained / "blank").write_text(" \n")
        assert evaluate.main(["--workdir=w", "--source=test.en", "--reference=blank"]) == 2
        assert "blank has blank references only" in capsys.readouterr().err
        (trained / "test.de").write_text(" \n")
        assert evaluate.main(["--workdir=w"]) == 2
        assert "the model's config has blank references only" in capsys.readouterr().err

    def test_the_configs_own_test_set_is_never_the_output(
        self, trained: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name in ("test.en", "test.de"):
            before = (trained / name).read_text()
            assert evaluate.main(["--workdir=w", f"--output={name}"]) == 2
            assert "is also an input" in capsys.readouterr().err
            assert (trained / name).read_text() == before

    def test_given_files(self, trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
        files = ["--source=test.en", "--reference=other.de", "--output=out"]
        scores = self.evaluate_json(capsys, *files)
        assert scores["bleu"]["score"] < 1
        scores = self.evaluate_json(capsys, *files, "--lowercase", "--tokenize=none")
        assert scores["bleu"]["score"] == pytest.approx(100)
        assert "case:lc|eff:no|tok:none" in scores["bleu"]["signature"]
        assert scores["chrf"]["score"] == pytest.approx(100)
        assert (trained / "out").read_text() == "HELLO MY DEAR OLD FRIEND\n"

    def test_without_files_the_configs_own_test_set(
        self, trained: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.evaluate_json(capsys)["bleu"]["score"] == pytest.approx(100)
        assert evaluate.main(["--workdir=w"]) == 0
        text = capsys.readouterr().out
        assert "BLEU 100.00   nrefs:1|case:mixed" in text
        assert "chrF2 100.00" in text

    def test_says_which_checkpoint_was_used(
        self, trained: Path, shouter: Shouter, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.evaluate_json(capsys)["checkpoint"] == "averaged"
        shouter.checkpoint = "1250"
        assert self.evaluate_json(capsys, "--checkpoint=best")["checkpoint"] == "1250"
        assert evaluate.main(["--workdir=w"]) == 0
        assert "\n1 line, checkpoint: 1250" in capsys.readouterr().out

    def test_chinese_is_counted_in_characters(
        self, trained: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        lines = Path("test.en").read_text().splitlines()
        Path("test.zh").write_text("我们必须保护环境。\n" * len(lines))
        for reference, tokenize in (("test.zh", "tok:zh"), ("test.de", "tok:13a")):
            found = self.evaluate_json(capsys, "--source=test.en", f"--reference={reference}")
            assert tokenize in found["bleu"]["signature"]

    def test_no_test_set_and_half_a_test_set_are_refused(
        self, trained: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        save_config(Config(), "w")
        assert evaluate.main(["--workdir=w"]) == 2
        assert "names no test set" in capsys.readouterr().err
        with pytest.raises(SystemExit) as stop:
            evaluate.main(["--workdir=w", "--source=test.en"])
        assert stop.value.code == 2
        assert "give both" in capsys.readouterr().err


class TestAverage:
    def test_says_what_it_averaged(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fake(workdir: str, *, last: int | None, best: int | None) -> averaging.Averaged:
            assert (workdir, last, best) == ("w", None, 2)
            return averaging.Averaged(Path("w/averaged"), (100, 300))

        monkeypatch.setattr(averaging, "average_checkpoints", fake)
        assert average.main(["--workdir=w", "--best=2"]) == 0
        assert capsys.readouterr().out.endswith(
            "averaged: the mean of the checkpoints of steps 100, 300\n"
        )

    @pytest.mark.parametrize("args", [[], ["--last=2", "--best=2"], ["--last=0"]])
    def test_needs_one_positive_number(
        self, args: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert average.main(["--workdir=w", *args]) == 2
        assert (
            "give either last or best (--last N, --best N), at least 1" in capsys.readouterr().err
        )


@pytest.mark.skipif(sys.platform != "linux", reason="on_exit is glibc's")
@pytest.mark.parametrize(
    ("status", "seen"), [(130, 130), (143, 143), (2, -signal.SIGABRT), (0, -signal.SIGABRT)]
)
def test_after_a_signal_exit_handlers_of_c_do_not_run(status, seen):
    """XLA may still be compiling, and would crash in the exit handlers of the C library."""
    program = (
        "import atexit, ctypes; from flaxformer_mt.runtime.command import exit_process; "
        "libc = ctypes.CDLL(None); "
        "libc.on_exit(libc.abort, None); atexit.register(print, 'last words', end=''); "
        f"exit_process({status})"
    )
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stdout) == (seen, b"last words")


@pytest.mark.slow
def test_processes_with_other_inputs_do_not_mix_their_outputs():
    """`srun` makes one run of all its tasks, also if each has a shard of its own."""
    program = (
        "import jax; from flaxformer_mt.cli import exit_code; "
        "from flaxformer_mt.runtime.command import exit_process; "
        "from flaxformer_mt.runtime.line_output import line_output\n"
        "from flaxformer_mt.runtime.processes import connect\n"
        "connect()\n"
        "def work():\n"
        "    with line_output('') as output:\n"
        "        output.begin({'--shard': f'{jax.process_index() + 1}/2'})\n"
        "exit_process(exit_code(work))\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env=os.environ | place,
            stderr=subprocess.PIPE,
            text=True,
        )
        for place in two_processes()
    ]
    for process in processes:
        assert "have different inputs, models or settings" in process.communicate(timeout=100)[1]
        assert process.returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize(("per_node", "visible"), [(1, "all"), (2, "0")])
def test_a_task_of_slurm_that_is_alone_on_its_machine_has_all_its_gpus(per_node, visible):
    """JAX gives each task of a machine one GPU, also if there is one task only."""
    program = (
        "from flaxformer_mt.runtime.processes import connect; connect(); "
        "from jax._src.xla_bridge import CUDA_VISIBLE_DEVICES; print(CUDA_VISIBLE_DEVICES.value)"
    )
    common = {
        "SLURM_JOB_ID": "7",
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_NTASKS": "2",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_NUM_NODES": str(2 // per_node),
        "SLURM_LOCALID": "0",
        "JAX_COORDINATOR_PORT": str(free_port()),
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env=os.environ | common | {"SLURM_PROCID": number},
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in "01"
    ]
    for process in processes:
        assert process.communicate(timeout=100)[0].splitlines()[-1] == visible


@pytest.mark.slow
def test_processes_disconnect_before_they_exit():
    """The first process has the coordination service: if it just ended, the other would crash."""
    program = (
        "import jax, time; from flaxformer_mt.runtime.command import exit_process; "
        "from flaxformer_mt.runtime.processes import connect; connect(); "
        "time.sleep(4 * jax.process_index()); exit_process(143)"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program], env=os.environ | place)
        for place in two_processes()
    ]
    assert [process.wait(timeout=100) for process in processes] == [143, 143]
