"""The tokenized training text: from text in memory, or from a prepared corpus on disk."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flaxformer_mt.data.batching.mixture import temperature_weights
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.held_out import open_set
from flaxformer_mt.data.prepared.manifest import Manifest, setting_changes, settings_of
from flaxformer_mt.data.prepared.reader import PreparedPairs, check_whole
from flaxformer_mt.data.prepared.remote import local_copy
from flaxformer_mt.data.prepared.shards import forget_files
from flaxformer_mt.data.report import Side, SplitCounts, describe_side
from flaxformer_mt.data.sources.corpora import set_aside
from flaxformer_mt.data.sources.pair import Pair, PairSource
from flaxformer_mt.data.sources.quarantine import count_kinds
from flaxformer_mt.data.sources.selection import (
    SelectedPairs,
    exclude_lines,
    join_pairs,
    source_lines,
)
from flaxformer_mt.data.tokenization.tokenized import Examples, TokenizedPairs, tokenize_source
from flaxformer_mt.data.tokenization.tokenizer import (
    Tokenizer,
    build_tokenizer,
    check_same_settings,
)
from flaxformer_mt.storage.paths import AnyPath, as_path

HeldOut = Mapping[str, Sequence[Pair]]
_PART_SIZE = 1 << 20  # pairs that are planned together


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TrainingText:
    """The tokenized training corpora."""

    names: tuple[str, ...]
    texts: tuple[PairSource, ...]
    """The kept pairs of each corpus, as text. Without text on disk, only their `len` works."""
    pairs: Examples
    """The token ids of the same pairs, corpus after corpus."""
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
    corpus = open_set(config, config.train, screened=True)
    if not corpus.sources:
        raise ValueError(
            "data.train lists no text; give text files as data.train.source and data.train.target, "
            "or other sources as data.train.pairs."
        )
    bad = set_aside(corpus, config.max_bad_share, quarantine)
    lines = {split: source_lines(held_out[split]) for split in config.exclude}
    selected = [exclude_lines(source, lines) for source in corpus.sources]
    corpus = dataclasses.replace(corpus, sources=tuple(source for source, _ in selected))
    dropped = sum((excluded for _, excluded in selected), count_kinds(bad))
    tokenizer = build_tokenizer(
        config.tokenizer, corpus, directory=tokenizer_directory, data_directory=config.directory
    )
    pairs, texts, too_long = tokenize_sources(config, corpus.sources, tokenizer)
    counts = count_pairs(pairs, dropped + too_long)
    if not len(pairs):
        raise ValueError(
            f"no training pair is left: {counts}. Check data.train, "
            f"data.max_source_length, data.max_target_length and data.exclude."
        )
    text = join_pairs(texts)
    return tokenizer, TrainingText(
        names=corpus.names,
        texts=texts,
        pairs=pairs,
        weights=_weights(config, corpus.weights, [len(text) for text in texts]),
        counts=counts,
        sides=(
            describe_side(0, tokenizer.source, text, pairs),
            describe_side(1, tokenizer.target, text, pairs),
        ),
        first_bad=str(bad[0]) if bad else "",
        quarantine=str(quarantine or "") if bad else "",
    )


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
    ends = itertools.accumulate((corpus.pairs for corpus in manifest.corpora), initial=0)
    texts = [SelectedPairs(pairs, range(*part)) for part in itertools.pairwise(ends)]
    weights = config.train.weights or (1.0,) * len(texts)
    if len(weights) != len(texts):
        raise ValueError(
            f"data.train.weights needs one number for each corpus: {directory} has {len(texts)} "
            f"({', '.join(corpus.name for corpus in manifest.corpora)}), got {weights}."
        )
    return tokenizer, TrainingText(
        names=tuple(corpus.name for corpus in manifest.corpora),
        texts=tuple(texts),
        pairs=pairs,
        weights=_weights(config, weights, [len(text) for text in texts]),
        counts=manifest.counts,
        sides=(manifest.sides["source"], manifest.sides["target"]),
        first_bad=manifest.first_bad,
        quarantine=str(directory / "quarantine.jsonl") if manifest.first_bad else "",
        part_size=_PART_SIZE,
    )


def tokenize_sources(
    config: DataConfig, sources: Sequence[PairSource], tokenizer: Tokenizer
) -> tuple[TokenizedPairs, tuple[PairSource, ...], Counter[str]]:
    """Returns the kept pairs of all sources as token ids and as text, and what was dropped."""
    parts = [
        tokenize_source(
            source,
            tokenizer,
            max_source_length=config.max_source_length,
            max_target_length=config.max_target_length,
        )
        for source in sources
    ]
    return (
        TokenizedPairs.concatenate([part.pairs for part in parts]),
        tuple(SelectedPairs(s, part.kept) for s, part in zip(sources, parts, strict=True)),
        sum((part.dropped for part in parts), Counter()),
    )


def count_pairs(pairs: Examples, dropped: Counter[str]) -> SplitCounts:
    """Returns the number of kept pairs, and of dropped pairs by reason."""
    return SplitCounts(read=len(pairs) + dropped.total(), kept=len(pairs), dropped=dropped)


def _weights(
    config: DataConfig, weights: Sequence[float], sizes: Sequence[int]
) -> tuple[float, ...]:
    if config.train.temperature:
        return temperature_weights(sizes, config.train.temperature)
    return tuple(weights)


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
    if after not in (0, before):
        changes.append(f"data.train.limit: {before} -> {after}")
    if changes:
        raise ValueError(
            f"{directory} was prepared with other settings:\n  "
            + "\n  ".join(changes)
            + "\nLeave out --config and the flags of these settings, so that those of the prepared "
            "corpus are taken, or prepare into a new directory."
        )
