"""Which model, and how it searches: what `translate`, `score` and `evaluate` have in common."""

import argparse
import dataclasses
import inspect
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from flaxformer_mt.cli import ABOUT_CACHE, guard, parse_arguments
from flaxformer_mt.translation.config import DecodingConfig

if TYPE_CHECKING:
    from flaxformer_mt.translation.translator import Translator


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelArguments:
    """A trained model, or several that vote."""

    workdir: tuple[str, ...]
    """Directory of a trained model: the --workdir of training. Several make an ensemble: they must
    have the same vocabularies, and how to search is told by the first."""
    weights: tuple[float, ...] = ()
    """How much each model of an ensemble counts; equally, if not given."""
    checkpoint: str = "auto"
    """Which parameters: averaged, best, last, or the number of a step; auto is the first of
    averaged, best and last that there is."""
    dtype: Literal["float32", "bfloat16"] | None = None
    """Of the products: bfloat16 is faster on hardware that has it, and changes a few in a hundred
    translations. If not given, as in training."""
    target_language: str = ""
    """Of a model that translates into several languages: the one wanted, as its training named it
    (fr). If not given, each line begins with its tag: >>fr<< A dog runs."""
    length_penalty: float | None = None
    """Exponent of the length penalty; 0 favours short output. If not given, as in the config."""
    decoding: DecodingConfig = DecodingConfig()
    """How to search: all settings, with the values of the model's config as defaults."""

    def __post_init__(self) -> None:
        if not self.workdir:
            raise ValueError("--workdir needs the directory of a trained model, or of several")

    @property
    def into(self) -> dict[str, Any]:
        """What `Translator` takes for the target language; nothing if none was given."""
        return {"target_language": self.target_language} if self.target_language else {}


Arguments = TypeVar("Arguments", bound=ModelArguments)


def run_model_verb(
    work: Callable[[Arguments], None], kind: type[Arguments], args: list[str] | None, *, verb: str
) -> int:
    """As `cli.run_verb`, with the defaults of `--decoding.*` as in the config of the workdir."""

    def parse_and_work() -> None:
        defaults = _with_decoding_of(kind, _workdirs(args))
        description = f"{inspect.getdoc(kind)}\n\n{ABOUT_CACHE}"
        work(parse_arguments(defaults, args, verb=verb, description=description))

    return guard(parse_and_work)


def output_of_first(path: str) -> str:
    """Of several processes, which this one joins here, the first writes; the others to nowhere."""
    import jax  # not above: --help does without

    from flaxformer_mt.runtime.compilation_cache import keep_programs
    from flaxformer_mt.runtime.processes import connect, is_first
    from flaxformer_mt.runtime.sharding import MeshConfig, configure_cpu_devices

    configure_cpu_devices(MeshConfig())
    connect()
    keep_programs()
    if jax.process_count() > 1:
        # JAX takes SIGTERM for a notice of preemption; here is nothing to be saved.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return path if is_first() else os.devnull


def load_translator(arguments: ModelArguments) -> "Translator":
    """The model, or the ensemble, with the settings of the command line."""
    from flaxformer_mt.translation.translator import Translator

    members = [
        Translator.load(one, which=arguments.checkpoint, dtype=arguments.dtype)
        for one in arguments.workdir
    ]
    translator = Translator.ensemble(members, arguments.weights)
    translator.config = arguments.decoding
    return translator


def _workdirs(args: list[str] | None) -> list[str]:
    """The values of --workdir, needed before the rest can be read: they give the other defaults."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--workdir", nargs="*", default=[])
    return parser.parse_known_args(args)[0].workdir


def _with_decoding_of(kind: type[Arguments], workdirs: list[str]) -> type[Arguments]:
    """`kind` with another default; as it is where there is no config (loading will say so)."""
    if not workdirs:
        return kind
    from flaxformer_mt.config import workdir_config  # with jax, which --help does without

    try:
        decoding = workdir_config(workdirs[0]).decoding
    except FileNotFoundError:
        return kind
    field = ("decoding", DecodingConfig, dataclasses.field(default=decoding))
    made: Any = dataclasses.make_dataclass(
        kind.__name__, [field], bases=(kind,), frozen=True, kw_only=True
    )
    return cast(type[Arguments], made)
