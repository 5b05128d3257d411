"""The command line: `flaxformer-mt VERB ...`, and what all verbs share.

A verb is a module with a frozen dataclass of its arguments (each field's docstring is its help)
and `main(args) -> exit status`, so that `python -m flaxformer_mt.VERB` does the same.
"""

import atexit
import gc
import importlib
import os
import sys
import textwrap
import warnings
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, cast

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from flaxformer_mt import __version__
from flaxformer_mt.runtime.dataclass_json import did_you_mean
from flaxformer_mt.runtime.exit import leave

T = TypeVar("T")

# Python looks through the million objects of JAX for cycles, again and again while programs are
# traced (half a second of a start), and once more before it ends (a third).
gc.set_threshold(100_000)
atexit.register(gc.freeze)

VERBS = {
    "train": "train a model, or go on training one",
    "translate": "translate text, line by line",
    "score": "how probable a model finds given translations",
    "evaluate": "BLEU and chrF of a model on a test set",
    "average": "average the parameters of several checkpoints",
    "sweep": "train variants of a config and compare them",
    "convert": "take models in from other toolkits, and write them for others",
    "plan": "what a recipe takes on hardware that need not be there, by the compiler",
    "summary": "a walk through the tensors of a model, with what each step costs",
    "attention_maps": "draw where a translation looks: encoder, decoder and source attention",
}
DEBUG = "FLAXFORMER_MT_DEBUG"
ABOUT_CACHE = (
    "Compiled programs are kept in ~/.cache/flaxformer_mt, so that the next start is faster. "
    "JAX_COMPILATION_CACHE_DIR=folder keeps them elsewhere, JAX_ENABLE_COMPILATION_CACHE=false "
    "nowhere."
)


def program() -> NoReturn:
    """The console script `flaxformer-mt`."""
    leave(main())


def main(args: list[str] | None = None) -> int:
    """Hand the rest of the arguments to the verb."""
    verb, *rest = (sys.argv[1:] if args is None else args) or ["--help"]
    if verb == "--version":
        print(__version__)
        return 0
    if verb in ("-h", "--help"):
        print("usage: flaxformer-mt VERB [OPTIONS]      (flaxformer-mt VERB --help for each)\n")
        print("\n".join(f"  {name:<16}{meaning}" for name, meaning in VERBS.items()))
        print(f"\n{textwrap.fill(ABOUT_CACHE, 80)}")
        return 0
    if verb not in VERBS:
        print(f"error: no verb {verb!r}: {did_you_mean(verb, VERBS)}", file=sys.stderr)
        return 2
    return importlib.import_module(f"flaxformer_mt.{verb}").main(rest)


def run_verb(
    work: Callable[[T], None],
    kind: type[T],
    args: list[str] | None,
    *,
    verb: str,
    package: str = "flaxformer_mt",
) -> int:
    """Read the command line into `kind`, do the work, and return the exit status."""
    return guard(lambda: work(parse_arguments(kind, args, verb=verb, package=package)))


def guard(work: Callable[[], None]) -> int:
    """Do the work; bad input and failing files become one clean message and exit status 2.

    That is, ValueError and OSError. Set the environment variable FLAXFORMER_MT_DEBUG for their
    traceback instead. Other exceptions are mistakes of ours and keep theirs.
    """
    warnings.formatwarning, python_format = _format_warning, warnings.formatwarning
    try:
        work()
    except BrokenPipeError:  # `... | head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # 128 + SIGPIPE, as a shell reports it
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (ValueError, OSError) as error:
        if os.environ.get(DEBUG):
            raise
        print(f"error: {_message(error)}", file=sys.stderr)
        return 2
    finally:
        warnings.formatwarning = python_format
    return 0


def parse_arguments(
    kind: type[T],
    args: list[str] | None,
    *,
    verb: str,
    package: str = "flaxformer_mt",
    description: str | None = None,
    default: T | None = None,
) -> T:
    """Read `args` (None: the command line) into the dataclass `kind`.

    Exits with status 2 and the nearest right flag if they do not fit, and with 0 after --help.
    """
    parsed = tyro.cli(
        kind,
        args=args,
        default=default,
        prog=f"python -m {package}.{verb}",
        description=description,
        config=(tyro.conf.FlagConversionOff,),
        registry=_registry,
    )
    return cast(T, parsed)


_python_format = warnings.formatwarning
_registry = ConstructorRegistry()


@_registry.primitive_rule
def _bool_rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """`--flag`, `--flag true` and `--flag false`, where tyro knows `--flag` and `--no-flag`."""
    if info.type is not bool:
        return None
    return PrimitiveConstructorSpec(
        nargs=(0, 1),
        metavar="[true|false]",
        instance_from_str=_parse_bool,
        is_instance=lambda value: isinstance(value, bool),
        str_from_instance=lambda value: [str(value).lower()],
    )


def _parse_bool(words: list[str]) -> bool:
    word = words[0].lower() if words else "true"
    if word not in ("true", "false"):
        raise ValueError(f"expected true or false, got {words[0]!r}")
    return word == "true"


def _format_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    """What a user should know in one line; what a programmer should know as Python shows it."""
    if category is UserWarning:
        return f"warning: {message}\n"
    return _python_format(message, category, filename, lineno, line)


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


if __name__ == "__main__":
    program()
