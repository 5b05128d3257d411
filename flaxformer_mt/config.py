"""`Config`: all settings of a run. Each section is defined beside the code that uses it.

A config file (`configs/*.py`) is Python that defines `config = Config(...)`. A command line can
override any field by its dotted path (`config_arguments`). A run keeps its config as JSON in its
workdir.
"""

import dataclasses
import difflib
import json
import re
import runpy
import traceback
from collections.abc import Collection
from pathlib import Path
from typing import Any

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.runtime import old_names
from flaxformer_mt.runtime.sharding import MeshConfig
from flaxformer_mt.storage.dataclass_json import from_dict
from flaxformer_mt.storage.paths import AnyPath, as_path, local_file, make_folder, write_file
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.translation.config import DecodingConfig

CONFIG_FILE = "config.json"
_PACKAGE = Path(__file__).parent
SHIPPED = next(
    (path for path in (_PACKAGE / "configs", _PACKAGE.parent / "configs") if path.is_dir()),
    _PACKAGE / "configs",
)
"""The configs that come with the package: inside it in a wheel, beside it in the repository."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of one run."""

    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    model: TransformerConfig = dataclasses.field(default_factory=TransformerConfig)
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
    decoding: DecodingConfig = dataclasses.field(default_factory=DecodingConfig)
    mesh: MeshConfig = dataclasses.field(default_factory=MeshConfig)
    seed: int = 0
    """Seed of everything random: initial parameters, order of the data, dropout."""

    def __post_init__(self) -> None:
        if self.model.positions != "learned":
            return
        longest = {
            "data.max_source_length": self.data.max_source_length,
            "data.max_target_length": self.data.max_target_length,
            "decoding.max_target_length": self.decoding.max_target_length,
        }
        for name, length in longest.items():
            if length > self.model.max_positions:
                raise ValueError(
                    f"{name} ({length}) is more than the {self.model.max_positions} learned "
                    "positions (model.max_positions): lower the one or raise the other"
                )


def load_config(path: str) -> Config:
    """Returns a config: `demo` (one of `SHIPPED`), a Python file, or a workdir's config.json.

    If there is no file `configs/demo.py`, this path also means the shipped config.

    Raises FileNotFoundError if there is no such file (the message lists the existing configs), and
    ValueError if the file fails, defines no `config`, or gives a field a wrong value.
    """
    file = _find(path)
    if file.suffix == ".json":
        return _read_json(file)
    found = _run_file(file).get("config")
    if not isinstance(found, Config):
        raise ValueError(
            f"{file} must define `config = Config(...)` (from flaxformer_mt.config import Config); "
            f"it defines {'nothing' if found is None else type(found).__name__} of that name"
        )
    return _checked(found, str(file))


def load_variants(path: str, name: str) -> dict[str, Config]:
    """Returns the dict `name` of configs from a file such as configs/table_3.py.

    Raises as `load_config`.
    """
    file = _find(path)
    found = _run_file(file).get(name)
    entries = found.items() if isinstance(found, dict) else ()
    if not entries or not all(isinstance(config, Config) for _, config in entries):
        raise ValueError(
            f"{file} must define `{name}`, a dict of name to Config, as configs/table_3.py does"
        )
    return {str(key): _checked(config, f"{file}, {name}[{key!r}]") for key, config in entries}


def shipped_name(path: str) -> str:
    """Returns the name of the shipped config that `path` names; "" for any other file."""
    file = _find(path)
    return file.stem if file.resolve().parent == SHIPPED.resolve() else ""


def to_json(config: Config) -> str:
    """Returns the config as JSON; `from_json` returns an equal one."""
    return json.dumps(dataclasses.asdict(config), indent=2, ensure_ascii=False) + "\n"


def from_json(text: str) -> Config:
    """Returns the config that `to_json` wrote. Raises ValueError as `config_from_dict`."""
    return config_from_dict(json.loads(text))


def config_from_dict(values: Any) -> Config:
    """Returns a config from nested dicts, of this version or an earlier one.

    Raises ValueError for an unknown key or a wrong value; the message names it.
    """
    if isinstance(values, dict):
        values = old_names.rename_keys(values)
    return from_dict(Config, values)


def model_from_dict(values: Any) -> TransformerConfig:
    """Returns the section `model` of a saved config. The other sections are not read."""
    values = old_names.rename_keys(values)
    return from_dict(TransformerConfig, values["model"], where="model")


def save_config(config: Config, workdir: str) -> None:
    """Writes workdir/config.json atomically."""
    folder = as_path(workdir)
    make_folder(folder)
    write_file(folder / CONFIG_FILE, to_json(config).encode())


def workdir_config(workdir: str) -> Config:
    """Returns the config of a workdir.

    Raises FileNotFoundError if the directory has none, ValueError if it is damaged.
    """
    path = as_path(workdir) / CONFIG_FILE
    if not path.is_file():
        if path.parent.is_dir():
            what = "has no config.json"
        else:
            what = "is a file" if path.parent.exists() else "does not exist"
        raise FileNotFoundError(
            f"{workdir} {what}: expected the --workdir of a run of `python -m flaxformer_mt.train`"
        )
    try:
        return _read_json(path)
    except ValueError as error:
        if (path.parent / "tokenizer").is_dir():
            raise
        raise ValueError(
            f"{error}\n{workdir} is not the workdir of a run. An export is none either; `python -m "
            "flaxformer_mt.convert --from marian` makes a workdir of a Marian model"
        ) from error


def differences(old: Any, new: Any, *, where: str = "", without: Collection[str] = ()) -> list[str]:
    """Returns a line "path: old -> new" for each field that differs between two configs.

    It does not compare the fields `without`.
    """
    lines = []
    for field in dataclasses.fields(old):
        before, after = getattr(old, field.name), getattr(new, field.name)
        path = f"{where}.{field.name}" if where else field.name
        if field.name in without:
            continue
        if dataclasses.is_dataclass(before):
            lines += differences(before, after, where=path)
        elif before != after:
            lines.append(f"{path}: {before!r} -> {after!r}")
    return lines


def _run_file(file: Path) -> dict[str, Any]:
    """Returns the variables that a config file defines."""
    try:
        return runpy.run_path(str(file))
    except Exception as error:  # a config file may raise anything
        if file.suffix != ".py":
            raise ValueError(
                f"{file} is no config: expected a Python file (.py) that defines `config = "
                "Config(...)`, or a config.json"
            ) from error
        raise ValueError(f"{_line_of(file, error)}: {error}{_hint(error)}") from error


def _checked(config: Config, where: str) -> Config:
    """Returns the config after a check of its types, with tuples instead of lists."""
    try:
        return from_json(to_json(config))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error


def _read_json(path: AnyPath) -> Config:
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path} is no JSON ({error}): restore it from a copy, or train again"
        ) from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _find(path: str) -> Path:
    path = str(local_file(path))
    shipped = SHIPPED / f"{path.removeprefix('configs/').removesuffix('.py')}.py"
    is_name = Path(path).name == path and not Path(path).suffix
    for file in (shipped, Path(path)) if is_name else (Path(path), shipped):
        if file.is_file():
            return file
    if (Path(path) / CONFIG_FILE).is_file():
        raise FileNotFoundError(f"{path} is a folder; its config is {Path(path) / CONFIG_FILE}")
    names = sorted(file.stem for file in SHIPPED.glob("*.py"))
    here = [] if is_name else sorted(map(str, Path(path).parent.glob("*.py")))
    raise FileNotFoundError(f"no config file {path}; there are: {', '.join(here + names)}")


def _line_of(file: Path, error: Exception) -> str:
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(file)]
    return f"{file}, line {lines[-1]}" if lines else str(file)


def _hint(error: Exception) -> str:
    """Returns advice for an unknown keyword of a config dataclass: a new or the nearest name."""
    unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if not unknown:
        return ""
    if message := old_names.explain(unknown[1], last_part=True):
        return f"; {message}"
    from flax.traverse_util import flatten_dict  # slow

    names = {part for path in flatten_dict(dataclasses.asdict(Config())) for part in path}
    nearest = difflib.get_close_matches(unknown[1], names, n=1)
    return "".join(f"; did you mean {name}?" for name in nearest)
