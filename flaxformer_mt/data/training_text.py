"""The tokenized training text: from text in memory, or from a prepared corpus on disk."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flaxformer_mt.data.batching.mixture import temperature_weights
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.encoding import Counts, Exclude, encode, learning_text, scan_block
from flaxformer_mt.data.prepared.manifest import (
    Manifest,
    setting_changes,
    settings_of,
    training_streams,
)
from flaxformer_mt.data.prepared.reader import PreparedPairs, check_whole
from flaxformer_mt.data.prepared.remote import local_copy
from flaxformer_mt.data.prepared.shards import forget_files
from flaxformer_mt.data.report import Side, SplitCounts
from flaxformer_mt.data.sources.blocks import BLOCK_SIZE, Block
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.sources.pair import Pair, PairSource, StoredPairs, source_lines
from flaxformer_mt.data.sources.quarantine import CorpusScan, write_quarantine
from flaxformer_mt.data.tokenization.tokenized import Examples, TokenizedPairs
from flaxformer_mt.data.tokenization.tokenizer import (
    Tokenizer,
    build_tokenizer,
    check_same_settings,
)
from flaxformer_mt.data.worker_processes import Workers
from flaxformer_mt.storage.paths import AnyPath, as_path

HeldOut = Mapping[str, Sequence[Pair]]
_PART_SIZE = 1 << 20  # pairs in a part of an epoch, see `Epochs.part_size`


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TrainingText:
    """The tokenized training corpora."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    """Number of kept pairs of each corpus."""
    text: PairSource
    """The kept pairs as text, corpus after corpus. Only subword sampling keeps the text."""
    pairs: Examples
    """The token ids of the same pairs."""
    weights: tuple[float, ...]
    """How often an epoch contains each corpus."""
    counts: SplitCounts
    sides: tuple[Side, Side]
    first_bad: str
    """The first bad record, "" if there is none."""
    quarantine: str
    """The file that lists the bad records, if there is one."""
    part_size: int = 0
    """As `Epochs.part_size`."""


def read_text(
    config: DataConfig, held_out: HeldOut, tokenizer_directory: str, quarantine: AnyPath | None
) -> tuple[Tokenizer, TrainingText]:
    """Reads and tokenizes the training text of a configuration. Raises as `build_data`."""
    streams = training_streams(config)
    if not streams:
        raise ValueError(
            "data.train lists no text; give text files as data.train.source and data.train.target, "
            "or other sources as data.train.pairs."
        )
    exclude: Exclude = {split: source_lines(held_out[split]) for split in config.exclude}
    corpora = [list(stream.blocks(BLOCK_SIZE)) for stream in streams]  # the bytes of the files
    scans = _scan(config, corpora, exclude, quarantine)
    first_bad = next((scan.first_bad for scan in scans if scan.first_bad), "")
    readers = [functools.partial(iter, blocks) for blocks in corpora]
    with Workers(1) as workers:
        text = learning_text(config, readers, scans, exclude, workers)
        tokenizer = build_tokenizer(
            config.tokenizer, text, directory=tokenizer_directory, data_directory=config.directory
        )
    total, sizes, parts, kept_text = Counts(), [], [], StoredPairs()
    for blocks in corpora:
        before = total.pairs
        for block in blocks:
            found = encode(block, config=config, exclude=exclude, tokenizer=tokenizer)
            total.add(found.counts)
            parts.append(found.pairs)
            kept_text.add(found.texts)
        sizes.append(total.pairs - before)
    if not total.pairs:
        raise ValueError(
            f"no training pair is left: {total.split}. Check data.train, data.max_source_length, "
            "data.max_target_length and data.exclude."
        )
    return tokenizer, TrainingText(
        names=config.train.names,
        sizes=tuple(sizes),
        text=kept_text,
        pairs=TokenizedPairs.concatenate(parts),
        weights=_weights(config.train, config.train.names, sizes),
        counts=total.split,
        sides=total.sides(tokenizer),
        first_bad=first_bad,
        quarantine=str(quarantine or "") if first_bad else "",
    )


def _scan(
    config: DataConfig,
    corpora: Sequence[Sequence[Block]],
    exclude: Exclude,
    quarantine: AnyPath | None,
) -> list[CorpusScan]:
    """Returns the counts of each corpus, and writes the bad records to `quarantine`.

    Raises ValueError if a corpus has too many bad records.
    """
    scans, bad = [], []
    for name, blocks in zip(config.train.names, corpora, strict=True):
        scan = CorpusScan(name=name)
        for block in blocks:
            found = scan_block(block, exclude=exclude)
            scan.add(found.num_records, found.num_good, found.bad)
            bad += found.bad
        scans.append(scan)
    if quarantine:
        write_quarantine(bad, quarantine)
    for scan in scans:
        scan.check(config.max_bad_share, quarantine)
    return scans


def read_prepared(
    config: DataConfig, held_out: HeldOut, tokenizer_directory: str
) -> tuple[Tokenizer, TrainingText]:
    """Opens the prepared corpus of a configuration. It does not read text.

    Raises ValueError if the corpus is incomplete, damaged, or was prepared with other settings.
    """
    path = as_path(config.prepared)
    if isinstance(path, Path):
        directory = path.expanduser()
    else:
        directory = local_copy(path, with_text=config.tokenizer.sampling_alpha > 0)
    manifest = Manifest.load(directory)
    if manifest is None:
        raise ValueError(
            f"{path} contains no complete prepared corpus (manifest.json is missing). Run "
            f"`python -m flaxformer_mt.prepare --config CONFIG --output {path}`, which also "
            "continues an interrupted preparation."
        )
    forget_files()
    samples = manifest.has_text and config.tokenizer.sampling_alpha > 0
    check_whole(directory, manifest, with_text=samples)
    tokenizer = _prepared_tokenizer(config, directory, manifest, tokenizer_directory)
    _check_settings(config, held_out, directory, manifest)
    pairs = PreparedPairs(directory, manifest)
    names = tuple(corpus.name for corpus in manifest.corpora)
    sizes = tuple(corpus.pairs for corpus in manifest.corpora)
    return tokenizer, TrainingText(
        names=names,
        sizes=sizes,
        text=pairs,
        pairs=pairs,
        weights=_weights(config.train, names, sizes),
        counts=manifest.counts,
        sides=(manifest.sides["source"], manifest.sides["target"]),
        first_bad=manifest.first_bad,
        quarantine=str(directory / "quarantine.jsonl") if manifest.first_bad else "",
        part_size=_PART_SIZE,
    )


def _weights(train: CorpusConfig, names: Sequence[str], sizes: Sequence[int]) -> tuple[float, ...]:
    """Returns how often an epoch contains each corpus."""
    if train.temperature:
        return temperature_weights(sizes, train.temperature)
    weights = train.weights or (1.0,) * len(names)
    if len(weights) != len(names):
        raise ValueError(
            f"data.train.weights needs one number for each corpus: there are {len(names)} "
            f"({', '.join(names)}), got {weights}."
        )
    return weights


def _prepared_tokenizer(
    config: DataConfig, directory: Path, manifest: Manifest, tokenizer_directory: str
) -> Tokenizer:
    """Returns the tokenizer of the prepared corpus, and saves it to a workdir without one.

    Raises ValueError if the workdir or the configuration has another tokenizer.
    """
    alpha = config.tokenizer.sampling_alpha
    if alpha and not manifest.has_text:
        raise ValueError(
            f"data.tokenizer.sampling_alpha={alpha} samples segmentations of text, but {directory} "
            "has token ids only. Prepare again with the same --data.tokenizer.sampling-alpha, "
            "which keeps the text, or set it to 0."
        )
    prepared = Tokenizer.load(directory / "tokenizer", sampling_alpha=alpha)
    if prepared.fingerprint != manifest.tokenizer:
        raise ValueError(
            f"{directory / 'tokenizer'} is not the tokenizer of the token ids in {directory}: it "
            "has changed. Prepare again."
        )
    check_same_settings(
        prepared.settings, dataclasses.asdict(config.tokenizer), directory / "tokenizer"
    )
    if not (as_path(tokenizer_directory) / "tokenizer.json").exists():
        prepared.save(tokenizer_directory)
        return prepared
    here = Tokenizer.load(tokenizer_directory, sampling_alpha=alpha)
    if here.fingerprint != prepared.fingerprint:
        raise ValueError(
            f"{tokenizer_directory} contains another tokenizer than {directory}. Start in a new "
            "workdir; or prepare the text with the tokenizer of this model: --training.init-from "
            "WORKDIR."
        )
    return here


def _check_settings(
    config: DataConfig, held_out: HeldOut, directory: Path, manifest: Manifest
) -> None:
    """Raises ValueError if settings that determine the token ids differ from the corpus."""
    # The corpus replaces the text of the configuration. `_prepared_tokenizer` checks the tokenizer.
    others = ("train", "limit", "tokenizer")

    def compared(settings: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in settings.items() if name not in others}

    now = settings_of(config, held_out)
    changes = setting_changes(compared(manifest.settings), compared(now))
    languages = tuple(dict.fromkeys(config.train.target_languages))
    if languages != manifest.languages:
        before, after = (", ".join(names) or "none" for names in (manifest.languages, languages))
        changes.append(f"data.train.target_languages: {before} -> {after}")
    before, after = manifest.settings["limit"], config.train.limit
    if after != before and (after or config.train.names):  # without text, there is no limit
        changes.append(f"data.train.limit: {before} -> {after}")
    if changes:
        raise ValueError(
            f"{directory} was prepared with other settings:\n  "
            + "\n  ".join(changes)
            + "\nLeave out --config and the flags of these settings, to use the settings of the "
            "prepared corpus, or prepare the text again in a new directory."
        )
