"""The command line: `flaxformer-mt COMMAND ...`, and what all commands share.

A command is a module with a frozen dataclass of its arguments (the docstring of a field is its
help), a function that takes them, and three last lines:

    main = command("average", AverageArguments, average)

    if __name__ == "__main__":
        exit_process(main())

`COMMANDS` lists its name. `python -m flaxformer_mt.average` and `flaxformer-mt average` run it.
"""

import argparse
import dataclasses
import importlib
import inspect
import os
import signal
import sys
import textwrap
import typing
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

import tyro

from flaxformer_mt import __version__
from flaxformer_mt.runtime.command import (
    exit_process,
    memory_problem,
    message_of,
    platform_problem,
    prepare_process,
    second_interrupt_ends,
)
from flaxformer_mt.runtime.flags import FLAG_TYPES
from flaxformer_mt.runtime.old_names import REMOVED_COMMANDS, refuse_old_flags
from flaxformer_mt.storage.dataclass_json import did_you_mean
from flaxformer_mt.storage.paths import remote_problem
from flaxformer_mt.translation.config import DecodingConfig, changed_config

if TYPE_CHECKING:
    from flaxformer_mt.translation.translator import Translator

T = TypeVar("T")

COMMANDS = {
    "prepare": "prepare training text of any size, once",
    "train": "train a model, or continue its training",
    "translate": "translate text, line by line",
    "score": "score given translations with a model",
    "evaluate": "BLEU and chrF of a model on a test set",
    "average": "average the parameters of several checkpoints",
    "sweep": "train variants of a config and compare them",
    "convert": "read models of other toolkits, and write models for them",
    "plan": "estimate memory and time of a recipe on other hardware",
    "rehearse": "simulate a run of several hosts on this machine, with a tiny model",
    "summary": "show the modules of a model with shapes, parameters and FLOPs",
    "attention_maps": "draw the attention of a translation",
}
DEBUG = "FLAXFORMER_MT_DEBUG"
ABOUT_CACHE = (
    "Compiled programs are kept in ~/.cache/flaxformer_mt/programs. JAX_COMPILATION_CACHE_DIR sets "
    "another folder, and JAX_ENABLE_COMPILATION_CACHE=false disables the cache."
)


def program() -> NoReturn:
    """Runs the console script `flaxformer-mt`."""
    exit_process(main())


def main(args: list[str] | None = None) -> int:
    """Runs the command that the first argument names; returns the exit code."""
    name, *rest = (sys.argv[1:] if args is None else args) or ["--help"]
    if name == "--version":
        print(__version__)
        return 0
    if name in ("-h", "--help"):
        print("usage: flaxformer-mt COMMAND [OPTIONS]      (flaxformer-mt COMMAND --help)\n")
        print("\n".join(f"  {name:<16}{meaning}" for name, meaning in COMMANDS.items()))
        print(f"\n{textwrap.fill(ABOUT_CACHE, 80)}")
        return 0
    if name in REMOVED_COMMANDS:
        print(f"error: {name} was removed: {REMOVED_COMMANDS[name]}", file=sys.stderr)
        return 2
    if name not in COMMANDS:
        print(f"error: no command {name!r}: {did_you_mean(name, COMMANDS)}", file=sys.stderr)
        return 2
    return importlib.import_module(f"flaxformer_mt.{name}").main(rest)


def command(
    name: str,
    kind: type[T],
    work: Callable[[T], int | None],
    *,
    package: str = "flaxformer_mt",
) -> Callable[..., int]:
    """Returns the `main` of a command: it reads arguments, does the work, returns the exit code.

    `main(args)` reads the list `args`; `main()` reads the arguments of the process.

    Args:
      name: the name of the command and of its module.
      kind: the dataclass of its arguments. It can have a class method `defaults(values_of)`, which
        returns default values by field name, such as those of a config file. `values_of(flag)`
        returns the values of a flag on the command line, or None.
      work: the command. It can return an exit code; None is 0.
      package: the package of the module, for the usage line.
    """

    def main(args: list[str] | None = None) -> int:
        prog = f"python -m {package}.{name}"
        return exit_code(lambda: work(parse_arguments(kind, args, prog=prog)))

    return main


def exit_code(work: Callable[[], int | None]) -> int:
    """Does the work. For bad input and failing files it prints one message and returns 2.

    These are ValueError, OSError, too little memory, and a platform that JAX cannot use. With the
    environment variable FLAXFORMER_MT_DEBUG, they keep their traceback. Other exceptions are bugs
    and always keep it.
    """
    prepare_process()
    warnings.formatwarning, python_format = _format_warning, warnings.formatwarning
    try:
        with second_interrupt_ends():
            return work() or 0
    except BrokenPipeError:  # the reader has ended, as in `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # 128 + SIGPIPE, as a shell reports it
    except KeyboardInterrupt as interrupt:
        print("interrupted", file=sys.stderr)
        number, *_ = interrupt.args or (signal.SIGINT,)  # see `line_output.interruptible`
        return 128 + number
    except Exception as error:
        problem = _problem(error)
        if not problem or os.environ.get(DEBUG):
            raise
        print(f"error: {problem}", file=sys.stderr)
        return 2
    finally:
        warnings.formatwarning = python_format


def _problem(error: Exception) -> str:
    """Returns the message for an error that is no bug; "" for a bug."""
    if isinstance(error, ValueError | OSError):
        return message_of(error)
    if isinstance(error, AssertionError | RuntimeError | MemoryError):
        return memory_problem(error) or platform_problem()
    return remote_problem(error)


def parse_arguments(kind: type[T], args: list[str] | None, *, prog: str) -> T:
    """Returns `args` (None: the process's) as the dataclass `kind`; see `command` for its defaults.

    Exits with code 2 and the nearest right flag if they do not fit, and with 0 after --help.
    Raises ValueError for a flag with an old name, an empty file name, and a word before all flags.
    """
    words = list(map(_expand_home, sys.argv[1:] if args is None else args))
    hints = typing.get_type_hints(kind, include_extras=True).values()
    has_positional = any(tyro.conf.Positional in getattr(x, "__metadata__", ()) for x in hints)
    if words and not words[0].startswith("-") and not has_positional:
        raise ValueError(
            f"{words[0]!r} comes before all flags, but every value follows the name of its flag, "
            "as in `--workdir runs/demo`; --help lists the flags"
        )
    refuse_old_flags(words, prog.rpartition(".")[2])
    for flag in ("--config", "--workdir", "--input", "--output"):
        if "" in (option_values(words, flag) or ()):
            raise ValueError(f'{flag} "" names no file: is a variable of the shell unset?')
    make_defaults = getattr(kind, "defaults", None)
    defaults = make_defaults(lambda flag: option_values(words, flag)) if make_defaults else {}
    return tyro.cli(
        _with_defaults(kind, defaults),
        args=words,
        prog=prog,
        description=inspect.getdoc(kind),
        config=(tyro.conf.FlagConversionOff,),
        registry=FLAG_TYPES,
    )


def _expand_home(word: str) -> str:
    """Returns "--flag=~/x" with the home directory; shells expand "~" only after a space."""
    flag, _, value = word.partition("=~/")
    return f"{flag}={os.path.expanduser(f'~/{value}')}" if value and flag[:2] == "--" else word


def _with_defaults(kind: type[T], values: dict[str, Any]) -> type[T]:
    """Returns a subclass of `kind` whose fields have other default values."""
    types = typing.get_type_hints(kind)
    fields = [(name, types[name], dataclasses.field(default=new)) for name, new in values.items()]
    return dataclasses.make_dataclass(
        kind.__name__, fields, bases=(kind,), frozen=True, kw_only=True
    )


def option_values(args: list[str], flag: str) -> list[str] | None:
    """Returns the values of a flag among arguments that are not parsed yet; None without it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(flag, nargs="*", dest="values")
    return parser.parse_known_args(args)[0].values


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelArguments:
    """A trained model, or an ensemble of several."""

    workdir: tuple[str, ...]
    """Directory of a trained model: the --workdir of training. Several make an ensemble: they must
    have the same vocabularies, and the search settings are those of the first."""
    weights: tuple[float, ...] = ()
    """Weight of each model of an ensemble. If not given, all are equal."""
    checkpoint: str = "auto"
    """Which parameters: averaged, best, last, or the number of a step; auto is the first of
    averaged, best and last that exists."""
    dtype: Literal["float32", "bfloat16"] | None = None
    """Type of numbers in products. bfloat16 is faster on hardware that has it, and changes a few in
    a hundred translations. If not given, as in training."""
    target_language: str = ""
    """Language to translate into, for a model with several; its name is that of the training (fr).
    If not given, each line begins with its tag: >>fr<< A dog runs."""
    length_penalty: float | None = None
    """Exponent of the length penalty; 0 favours short output. If not given, as in the config."""
    decoding: DecodingConfig = DecodingConfig()
    """All search settings; their defaults are the values of the model's config."""

    def __post_init__(self) -> None:
        if not self.workdir:
            raise ValueError("--workdir needs the directory of a trained model, or of several")

    def search_config(self, **changes: Any) -> DecodingConfig:
        """Returns `decoding` with the values of short flags, such as --beam-size, and `changes`."""
        short_flags = ("beam_size", "num_hypotheses", "length_penalty")
        given = {name: getattr(self, name, None) for name in short_flags}
        return changed_config(self.decoding, given | changes)

    @classmethod
    def defaults(cls, values_of: Callable[[str], list[str] | None]) -> dict[str, Any]:
        """Returns the search settings of the first workdir; nothing where there is no config."""
        if not (workdirs := values_of("--workdir")):
            return {}
        for file in filter(os.path.isfile, workdirs):
            raise ValueError(
                f"{file} is a file: expected the --workdir of a trained model. Text is given with "
                "--input (translate) or --source (score, evaluate)"
            )
        from flaxformer_mt.config import workdir_config  # imports jax, which --help does not need

        try:
            return {"decoding": workdir_config(workdirs[0]).decoding}
        except FileNotFoundError:
            return {}  # loading the model will report it


@dataclasses.dataclass(frozen=True, kw_only=True)
class LineOutputArguments(ModelArguments):
    """Where the results of lines go, and their form."""

    output: str = ""
    """File to write; it appears when everything is done. Until then FILE.partial has the finished
    lines, also after an interruption. If not given, standard output."""
    resume: bool = False
    """Go on after the lines in FILE.partial of an interrupted run. Input, model and settings must
    be those of that run."""
    shard: str = ""
    """2/4 = the second of four consecutive parts of the input, so that four processes share it,
    each with its own --output. `cat` of the four outputs, in order, is the whole output."""
    json: bool = False
    """Write one JSON object for each line."""
    details: bool = False
    """In JSON, add tokens, their log-probabilities and their alignment."""
    attention: bool = False
    """In JSON, add details and the attention of each target token."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.details or self.attention) and not self.json:
            raise ValueError("--details and --attention are written in JSON: add --json")
        if self.resume and not self.output:
            raise ValueError("--resume goes on after the lines of a file: it needs --output")


WITHOUT_EFFECT = ("decoding.tokens_per_batch", "decoding.max_rows_per_batch")
"""Arguments that change speed and memory, but no result."""


def first_process_output(path: str, *, inputs: Sequence[str] = ()) -> str:
    """Connects the processes. Returns `path` in the first one, and the null device in others.

    Raises ValueError if `path` is one of the `inputs`.
    """
    if path and os.path.realpath(path) in {os.path.realpath(file) for file in inputs if file}:
        raise ValueError(f"--output {path} is also an input; choose another file")
    import jax  # not above: --help does not need it

    from flaxformer_mt.runtime.compilation_cache import keep_programs
    from flaxformer_mt.runtime.processes import connect, is_first
    from flaxformer_mt.runtime.sharding import MeshConfig, configure_cpu_devices

    configure_cpu_devices(MeshConfig())
    connect()
    keep_programs()
    if jax.process_count() > 1:
        # JAX takes SIGTERM as a notice of preemption; here there is nothing to save.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return path if is_first() else os.devnull


def load_translator(arguments: ModelArguments) -> "Translator":
    """Returns the model, or the ensemble, with the search settings of the command line."""
    from flaxformer_mt.translation.translator import Translator

    members = [
        Translator.load(workdir, checkpoint=arguments.checkpoint, dtype=arguments.dtype)
        for workdir in arguments.workdir
    ]
    translator = Translator.ensemble(members, arguments.weights)
    translator.config = arguments.search_config()
    return translator


_python_format = warnings.formatwarning


def _format_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """Returns a warning for users as one line; others as Python shows them."""
    if category is UserWarning:
        return f"warning: {message}\n"
    return _python_format(message, category, filename, lineno, line)


if __name__ == "__main__":
    program()
