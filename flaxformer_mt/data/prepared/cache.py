"""Prepares large training text in a local folder, at the first start of a run."""

import dataclasses
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.prepared.manifest import (
    INPUTS,
    Manifest,
    check_scans,
    file_states,
    files_of,
    read_json,
    settings_of,
    training_streams,
)
from flaxformer_mt.data.sources.blocks import PairStream, num_text_bytes
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.tokenization.tokenized import hash_parts
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.storage.paths import (
    AnyPath,
    as_path,
    cache_folder,
    lock,
    make_folder,
    write_file,
)


def prepare_large_text(
    config: DataConfig,
    held_out: Mapping[str, Sequence[Pair]],
    tokenizer_directory: str,
    quarantine: AnyPath | None,
    num_processes: int,
) -> DataConfig:
    """Returns a configuration that reads prepared training text. The first call prepares it.

    Text is prepared by `num_processes` processes, in a folder of the user's cache. For less text
    than `config.in_memory_mb`, this function returns `config`. If several processes of a machine
    call it, one prepares and the others wait. Raises the errors of `prepare_corpus`.
    """
    streams = training_streams(config)
    megabytes = sum(map(num_text_bytes, streams)) / 1e6
    if megabytes < config.in_memory_mb:
        return config
    folder = _folder(config, held_out, streams, tokenizer_directory)
    with lock(folder):
        if Manifest.load(folder):
            print(f"The training text was prepared before: {folder}", file=sys.stderr)
        else:
            _prepare(config, folder, tokenizer_directory, num_processes, megabytes)
    bad_records = folder / "quarantine.jsonl"
    check_scans(read_json(folder / INPUTS)["corpora"], config.max_bad_share, bad_records)
    if quarantine and bad_records.exists():
        make_folder(quarantine.parent)
        write_file(quarantine, bad_records.read_bytes())
    elif quarantine:
        quarantine.unlink(missing_ok=True)
    return dataclasses.replace(config, prepared=str(folder))


def _prepare(
    config: DataConfig, folder: Path, tokenizer_directory: str, num_processes: int, megabytes: float
) -> None:
    # Imported here, because translation does not need it.
    from flaxformer_mt.data.prepared.preparing import prepare_corpus

    print(
        f"Preparing the training text (about {megabytes:,.0f} MB), once, in {folder}. Later starts "
        "read it from there. Delete this folder when no run needs it. "
        "--data.in-memory-mb sets the size from which text is prepared.",
        file=sys.stderr,
    )
    started = time.monotonic()
    if _has_tokenizer(tokenizer_directory) and not _has_tokenizer(folder / "tokenizer"):
        Tokenizer.load(tokenizer_directory).save(folder / "tokenizer")
    prepare_corpus(config, folder, num_processes=num_processes)
    print(f"Prepared in {time.monotonic() - started:,.0f} s.", file=sys.stderr)


def _folder(
    config: DataConfig,
    held_out: Mapping[str, Sequence[Pair]],
    streams: Sequence[PairStream],
    tokenizer_directory: str,
) -> Path:
    """Returns the folder for this text, these settings and the tokenizer of the run, if any."""
    found = file_states(files_of(config, streams))
    states = [(str(file), state) for file, state in found.items()]
    recipe = json.dumps([settings_of(config, held_out), states]).encode()
    languages = f"{config.source_language}-{config.target_language}"
    folder = cache_folder("prepared") / f"{languages}-{hash_parts([recipe])}"
    if not _has_tokenizer(tokenizer_directory):
        return folder
    tokenizer = Tokenizer.load(tokenizer_directory).fingerprint
    manifest = Manifest.load(folder)
    if manifest and manifest.tokenizer == tokenizer:  # the run has the tokenizer learnt here
        return folder
    return folder.with_name(f"{folder.name}-{tokenizer}")


def _has_tokenizer(directory: str | Path) -> bool:
    return (as_path(directory) / "tokenizer.json").exists()
