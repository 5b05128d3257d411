"""`Config`: everything that decides what a run does; composed here, explained where it is used.

A config file (`configs/*.py`) is Python that defines `config = Config(...)`. The command line
overrides any field by its dotted path, and a run keeps its config as JSON in its workdir.
"""

import dataclasses
import difflib
import json
import os
import re
import runpy
import traceback
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flaxformer_mt.data.pipeline import DataConfig
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.runtime.dataclass_json import from_dict
from flaxformer_mt.runtime.sharding import MeshConfig
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.translation.config import DecodingConfig

CONFIG_FILE = "config.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """One run: its text, its model, its training, and how it translates."""

    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    model: TransformerConfig = dataclasses.field(default_factory=TransformerConfig)
    training: TrainingConfig = dataclasses.field(default_factory=TrainingConfig)
    decoding: DecodingConfig = dataclasses.field(default_factory=DecodingConfig)
    mesh: MeshConfig = dataclasses.field(default_factory=MeshConfig)
    seed: int = 0
    """Decides everything random: initial parameters, order of the data, dropout."""

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
                    f"{name} ({length}) is more than the {self.model.max_positions} positions that "
                    f"are learned (model.max_positions): lower the one or raise the other"
                )


def load_config(path: str) -> Config:
    """The `config` that a file such as configs/demo.py defines, or that a workdir's config.json is.

    A relative path is also looked up beside the package, so that `configs/demo.py` is found from
    any directory. Raises FileNotFoundError (naming the configs that exist), or ValueError if the
    file fails, defines no `config`, or gives a field a value of the wrong type.
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
    """The dict `name` of several configs that a file such as configs/table_3.py defines.

    Raises FileNotFoundError or ValueError as `load_config` does.
    """
    file = _find(path)
    found = _run_file(file).get(name)
    entries = found.items() if isinstance(found, dict) else ()
    if not entries or not all(isinstance(config, Config) for _, config in entries):
        raise ValueError(f"{file} must define `{name}`, a dict of name to Config")
    return {str(key): _checked(config, f"{file}, {name}[{key!r}]") for key, config in entries}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConfigArguments(Config):
    """Arguments of a command: a config file, and options that override its fields."""

    config: str = "configs/demo.py"
    """Python file that defines `config = Config(...)`, or the config.json of a workdir; other
    options override its fields."""

    @classmethod
    def defaults(cls, values_of: Callable[[str], list[str]]) -> dict[str, Any]:
        """The values of the file that --config names (see `cli.command`)."""
        path = (values_of("--config") or [cls.config])[0]
        return {"config": path, **vars(load_config(path))}

    def as_config(self) -> Config:
        """The config without the other arguments."""
        return Config(**{f.name: getattr(self, f.name) for f in dataclasses.fields(Config)})


def to_json(config: Config) -> str:
    """The whole config as JSON; `from_json` gives an equal one back."""
    return json.dumps(dataclasses.asdict(config), indent=2, ensure_ascii=False) + "\n"


def from_json(text: str) -> Config:
    """The config that `to_json` wrote; raises ValueError naming what is unknown or does not fit."""
    return from_dict(Config, json.loads(text))


def save_config(config: Config, workdir: str) -> None:
    """Write workdir/config.json, whole or not at all."""
    path = Path(workdir, CONFIG_FILE)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(to_json(config), encoding="utf-8")
    os.replace(partial, path)


def workdir_config(workdir: str) -> Config:
    """The config that a run keeps in its workdir.

    Raises FileNotFoundError if the directory holds none, ValueError if it cannot be read.
    """
    path = Path(workdir, CONFIG_FILE)
    if not path.is_file():
        what = "has no config.json" if path.parent.is_dir() else "does not exist"
        raise FileNotFoundError(
            f"{workdir} {what}: expected the --workdir of a run of `python -m flaxformer_mt.train`"
        )
    return _read_json(path)


def differences(old: Any, new: Any, *, where: str = "") -> list[str]:
    """One line for each field in which two configs of one type differ: "path: old -> new"."""
    lines = []
    for field in dataclasses.fields(old):
        before, after = getattr(old, field.name), getattr(new, field.name)
        path = f"{where}.{field.name}" if where else field.name
        if dataclasses.is_dataclass(before):
            lines += differences(before, after, where=path)
        elif before != after:
            lines.append(f"{path}: {before!r} -> {after!r}")
    return lines


def _run_file(file: Path) -> dict[str, Any]:
    """The variables that a config file defines."""
    try:
        return runpy.run_path(str(file))
    except Exception as error:  # a config file is the user's code: it may raise anything
        raise ValueError(f"{_place(file, error)}: {error}{_hint(error)}") from error


def _checked(config: Config, where: str) -> Config:
    """The config with its types checked, and lists made tuples."""
    try:
        return from_json(to_json(config))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from error


def _read_json(path: Path) -> Config:
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _find(path: str) -> Path:
    repository = Path(__file__).parent.parent
    for file in (Path(path), repository / path):
        if file.is_file():
            return file
    directory = Path(path).parent if Path(path).parent.is_dir() else repository / "configs"
    found = ", ".join(str(file) for file in sorted(directory.glob("*.py")))
    raise FileNotFoundError(f"no config file {path}; there are: {found or f'none in {directory}'}")


def _place(file: Path, error: Exception) -> str:
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(file)]
    return f"{file}, line {lines[-1]}" if lines else str(file)


def _hint(error: Exception) -> str:
    """For a misspelt keyword of a config dataclass: the nearest right one."""
    misspelt = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    homes = {
        f.name: kind.__name__ for kind in _config_types(Config) for f in dataclasses.fields(kind)
    }
    nearest = difflib.get_close_matches(misspelt[1], homes, n=1) if misspelt else []
    return "".join(f"; did you mean {name} (of {homes[name]})?" for name in nearest)


def _config_types(kind: Any) -> Iterator[Any]:
    yield kind
    for field_type in typing.get_type_hints(kind).values():
        if dataclasses.is_dataclass(field_type):
            yield from _config_types(field_type)
