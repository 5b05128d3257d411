"""The files `manifest.json` and `inputs.json`: contents and inputs of a prepared corpus."""

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.report import Side, SplitCounts
from flaxformer_mt.data.sources.blocks import PairStream
from flaxformer_mt.data.sources.corpora import open_streams
from flaxformer_mt.data.sources.pair import Pair, source_lines
from flaxformer_mt.data.sources.quarantine import CorpusScan
from flaxformer_mt.data.tokenization.tokenized import hash_parts
from flaxformer_mt.storage.paths import join, local_file, local_folder, write_file

MANIFEST, INPUTS = "manifest.json", "inputs.json"
_FORMAT = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorpusEntry:
    """One source corpus of a prepared corpus."""

    name: str
    records: int
    """Number of records read."""
    pairs: int
    """Number of pairs kept."""
    dropped: Mapping[str, int]
    """Number of dropped records by reason."""
    shards: tuple[int, ...]
    """Number of pairs in each of its shards."""
    fingerprint: str
    """Hash of the token ids, as of `TokenizedPairs.fingerprint`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """The contents of a prepared corpus. It is written last, so it marks a complete corpus."""

    settings: Mapping[str, Any]
    """The result of `settings_of`."""
    inputs: Mapping[str, Any]
    """Size, time and hash of each file that was read."""
    tokenizer: str
    """The fingerprint of the tokenizer."""
    languages: tuple[str, ...]
    """The target languages that the tags of source texts name."""
    corpora: tuple[CorpusEntry, ...]
    id_type: str
    """The type of the token ids on disk."""
    has_text: bool
    """Whether the corpus also has the text, for subword sampling."""
    sides: Mapping[str, Side]
    """Tokens and unknown tokens of "source" and "target"."""
    first_bad: str
    """Description of the first bad record; "" if there is none."""
    format: int = _FORMAT

    @property
    def counts(self) -> SplitCounts:
        """The counts of all corpora together."""
        dropped = sum((Counter(dict(corpus.dropped)) for corpus in self.corpora), Counter())
        return SplitCounts(
            read=sum(corpus.records for corpus in self.corpora),
            kept=sum(corpus.pairs for corpus in self.corpora),
            dropped=dropped,
        )

    def describe(self) -> list[str]:
        """Returns a description of the contents, in lines."""
        return [
            f"training    {self.counts}",
            *(f"            from {corpus.name}: {corpus.pairs:,}" for corpus in self.corpora),
            *([f"            bad records: {self.first_bad}"] if self.first_bad else []),
            *(f"{name:<12}{side}" for name, side in self.sides.items()),
        ]

    def save(self, directory: Path) -> None:
        """Writes the manifest."""
        write_json(directory / MANIFEST, dataclasses.asdict(self))

    @classmethod
    def load(cls, directory: Path) -> "Manifest | None":
        """Returns the manifest; None if the corpus is incomplete.

        Raises ValueError if it is damaged or from another version.
        """
        values = read_json(directory / MANIFEST)
        if values is None:
            return None
        try:
            values.pop("lengths", None)  # of earlier caches
            if values["format"] != _FORMAT:
                raise ValueError(f"expected format {_FORMAT}, got {values['format']}")
            corpora = [CorpusEntry(**(one | {"shards": tuple(one["shards"])})) for one in
                       values["corpora"]]  # fmt: skip
            languages = tuple(values["languages"])
            sides = {name: _side_of(side) for name, side in values["sides"].items()}
            return cls(
                **values | {"corpora": tuple(corpora), "languages": languages, "sides": sides}
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{directory / MANIFEST} cannot be read: {error}. Prepare into a new directory."
            ) from error


def _side_of(values: dict[str, Any]) -> Side:
    """Returns a `Side` from its JSON values."""
    words = tuple((word, count) for word, count in values["most_frequent_unknown"])
    return Side(**(values | {"most_frequent_unknown": words}))


def settings_of(config: DataConfig, held_out: Mapping[str, Sequence[Pair]]) -> dict[str, Any]:
    """Returns the settings that determine a prepared corpus, as JSON values.

    `held_out` has the pairs of the sets that `config.exclude` names.
    """
    settings = {
        "source_language": config.source_language,
        "target_language": config.target_language,
        "train": {
            name: getattr(config.train, name)
            for name in ("source", "target", "pairs", "source_languages", "target_languages")
        },
        "limit": config.train.limit,
        "exclude": {
            split: hash_parts(
                f"{line}\n".encode() for line in sorted(source_lines(held_out[split]))
            )
            for split in config.exclude
        },
        "max_source_length": config.max_source_length,
        "max_target_length": config.max_target_length,
        "tokenizer": dataclasses.asdict(config.tokenizer),
    }
    return json.loads(json.dumps(settings))


def setting_changes(before: Any, now: Any, name: str = "data") -> list[str]:
    """Returns a sentence such as "data.x was 1 and is now 2" for each setting that differs."""
    if isinstance(before, dict) and isinstance(now, dict):
        names = [*before, *(key for key in now if key not in before)]
        return [
            line
            for key in names
            for line in setting_changes(before.get(key), now.get(key), f"{name}.{key}")
        ]
    if before == now:
        return []
    if name.startswith("data.exclude."):
        return [f"the lines of {name.rpartition('.')[2]} that data.exclude drops have changed"]
    return [f"{name} was {before!r} and is now {now!r}"]


def training_streams(config: DataConfig) -> list[PairStream]:
    """Returns the training text as streams; see `open_streams`."""
    languages = config.source_language, config.target_language
    return open_streams(config.train, config.directory, languages)


def files_of(config: DataConfig, streams: Sequence[PairStream]) -> list[Path]:
    """Returns the files of streams and of existing vocabularies (of Marian: of its folder)."""
    files = [file for stream in streams for file in stream.files]
    for name in filter(None, config.tokenizer.existing_files()):
        path = join(config.directory, name)
        if path.is_dir():
            files += sorted(file for file in local_folder(path).iterdir() if file.is_file())
        elif path.is_file():
            files.append(local_file(path))
    return list(dict.fromkeys(files))


def check_scans(
    saved: Iterable[dict[str, Any]], max_bad_share: str, quarantine: Path
) -> list[CorpusScan]:
    """Returns the counts of inputs.json. Raises ValueError if a corpus has too many bad records.

    An earlier start may have allowed a larger share.
    """
    scans = [CorpusScan(**(values | {"bad": Counter(values["bad"])})) for values in saved]
    for scan in scans:
        scan.check(max_bad_share, quarantine)
    return scans


def fingerprint_file(path: Path) -> dict[str, Any]:
    """Returns size (bytes), modification time (ns) and hash of a file."""
    about = path.stat()
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
    return {"size": about.st_size, "modified": about.st_mtime_ns, "hash": digest.hexdigest()}


def file_states(files: Iterable[Path]) -> dict[Path, tuple[int, int] | None]:
    """Returns (size, modification time in ns) of each file; None for a missing file."""
    found = {file: file.stat() if file.exists() else None for file in files}
    return {
        file: (stat.st_size, stat.st_mtime_ns) if stat else None for file, stat in found.items()
    }


def state_changes(before: Mapping[Path, Any]) -> list[str]:
    """Returns a sentence for each file whose state is another than `before`."""
    now = file_states(before)
    return [f"{file} has changed" for file in before if now[file] != before[file]]


def input_changes(inputs: Mapping[str, Any]) -> list[str]:
    """Returns a sentence for each file that has changed or is missing."""
    lines = []
    for name, before in inputs.items():
        path = Path(name)
        if not path.exists():
            lines.append(f"{name} is gone")
            continue
        about = path.stat()
        if about.st_size != before["size"]:
            lines.append(
                f"{name} has changed: it had {before['size']:,} bytes and has {about.st_size:,}"
            )
        # Copying a file changes the time, so a new time alone is no change.
        elif (
            about.st_mtime_ns != before["modified"]
            and fingerprint_file(path)["hash"] != before["hash"]
        ):
            lines.append(f"{name} has changed: it has other content of the same size")
    return lines


def read_json(file: Path) -> Any:
    """Returns the content of a JSON file; None if there is no file."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(
            f"{file} is damaged: {error}. Delete the prepared corpus, and prepare again."
        ) from error


def write_json(file: Path, values: Any) -> None:
    """Writes a JSON file atomically."""
    text = json.dumps(values, ensure_ascii=False, indent=1)
    write_file(file, text.encode(errors="backslashreplace"))  # a file name may not be UTF-8
