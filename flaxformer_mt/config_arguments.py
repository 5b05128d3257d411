"""Command lines of configs: `ConfigArguments` is a config file with overrides of its fields."""

import dataclasses
import sys
from collections.abc import Callable, Mapping
from typing import Any

from flaxformer_mt.config import CONFIG_FILE, Config, load_config
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.storage.paths import join

_TEXT = ("source", "target", "pairs")  # fields of CorpusConfig
_LANGUAGES = ("source_languages", "target_languages")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConfigArguments(Config):
    """Arguments of a command: a config file, and options that override its fields."""

    config: str = "demo"
    """Name of a config that comes with the package (demo, own_text, ...), Python file that defines
    `config = Config(...)`, or config.json of a workdir; other options override its fields. If not
    given: demo, or own_text where options list other text than the demo's."""

    @classmethod
    def defaults(cls, values_of: Callable[[str], list[str] | None]) -> dict[str, Any]:
        """Returns the values of the file that --config names (see `cli.command`)."""
        given = {name: _given_lists(name, values_of) for name in ("train", "validation", "test")}
        path = "".join((values_of("--config") or [])[:1])
        own = any(map(_is_own, given.values()))
        if prepared := "".join((values_of("--data.prepared") or [])[:1]):
            file = join(".", prepared) / CONFIG_FILE  # `prepare` wrote it
            if file.is_file():
                path = path or str(file)
                own = own or _is_own(vars(load_config(str(file)).data.train))
        if not path and own:
            path = "own_text"
            print("no --config, but own text: taking the config own_text", file=sys.stderr)
        config = load_config(path or cls.config)
        data = config.data
        if values_of("--data.exclude") is not None:  # before the text that it names may go
            data = dataclasses.replace(data, exclude=())
        data = _without_replaced_text(data, given, own=own)
        return {"config": path or cls.config, **vars(dataclasses.replace(config, data=data))}

    def as_config(self) -> Config:
        """Returns the config without the other arguments."""
        return Config(**{f.name: getattr(self, f.name) for f in dataclasses.fields(Config)})


def _given_lists(
    split: str, values_of: Callable[[str], list[str] | None]
) -> dict[str, tuple[str, ...]]:
    """Returns the texts and languages that the command line lists for a set, by field.

    A list is empty if its flag has no values, such as the name of an unset variable of a shell.
    """
    flags = {name: f"--data.{split}.{name}" for name in (*_TEXT, *_LANGUAGES)}
    values = {
        name: values_of(flag) or values_of(flag.replace("_", "-")) for name, flag in flags.items()
    }
    return {name: tuple(found) for name, found in values.items() if found is not None}


def _is_own(lists: Mapping[str, Any]) -> bool:
    """Returns whether the lists of a set name other text than the demo's."""
    pairs = lists.get("pairs", ())
    return any(map(lists.get, ("source", "target"))) or not all(map(_is_demo, pairs))


def _is_demo(spec: str) -> bool:
    return spec.startswith("demo:")


def _without_replaced_text(
    data: DataConfig, given: dict[str, dict[str, tuple[str, ...]]], *, own: bool
) -> DataConfig:
    """Returns the data of a config file without text that the command line replaces.

    Text of the command line replaces all text of its set: a set has several fields for text, and
    text of two origins would mix. Training text also replaces a prepared corpus. `own` text also
    replaces the demo's text in every other set. Weights and languages of a set stay if the number
    of its corpora does.
    """
    sets: dict[str, Any] = {}
    dropped = []
    for split, lists in given.items():
        corpus: CorpusConfig = getattr(data, split)
        if lists.keys() & set(_TEXT):
            text: dict[str, Any] = {name: lists.get(name, ()) for name in _TEXT}
            if len(text["source"]) + len(text["pairs"]) != len(corpus.names):
                text |= {"weights": ()} | {name: lists.get(name, ()) for name in _LANGUAGES}
            sets[split] = dataclasses.replace(corpus, **text)
        elif own and any(map(_is_demo, corpus.pairs)):
            sets[split] = CorpusConfig()
            dropped.append(split)
    if dropped:
        names = ", ".join(f"data.{split}" for split in dropped)
        print(f"own text: the demo's text in {names} is left out", file=sys.stderr)
    prepared = data.prepared
    if prepared and "train" in sets:
        print(f"own text: the prepared corpus {prepared} is left out", file=sys.stderr)
        prepared = ""
    exclude = tuple(split for split in data.exclude if split not in dropped)
    return dataclasses.replace(data, exclude=exclude, prepared=prepared, **sets)
