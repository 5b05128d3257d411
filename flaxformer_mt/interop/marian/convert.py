"""Reads and writes directories of Hugging Face Marian models.

    config.json                  the architecture       marian.config
    generation_config.json       the search             marian.generation
    model.safetensors            the tensors            marian.weights
    source.spm, vocab.json, ...  the vocabularies       data.tokenization.marian_vocabulary

`write_marian(out, read_marian(directory))` writes the same tensors, bit for bit, and the same
tokenizer files.
"""

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flaxformer_mt.checkpoints.loading import LoadedModel
from flaxformer_mt.config import Config
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.sources.files import missing_file
from flaxformer_mt.data.sources.language_tags import languages_in
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.data.tokenization.marian_vocabulary import (
    MODELS,
    SETTINGS,
    TARGET_VOCAB,
    VOCAB,
    MarianVocabulary,
    parse_json_object,
    read_marian_vocabularies,
)
from flaxformer_mt.data.tokenization.sentencepiece_vocabulary import SentencePieceVocabulary
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.interop import empty_directory
from flaxformer_mt.interop.marian import config as architecture
from flaxformer_mt.interop.marian import weights
from flaxformer_mt.interop.marian.config import Json, MarianConfig
from flaxformer_mt.interop.marian.generation import to_decoding_config, to_generation_json
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.translation.config import DecodingConfig

CONFIG, GENERATION = "config.json", "generation_config.json"
MAX_CACHE_BYTES = 1 << 30  # of keys and values of a batch, at the greatest length
MIN_POSITIONS = 1024  # of an export; transformers fails on longer sentences
FINE_TUNING = TrainingConfig(learning_rate=5e-5, warmup_steps=200)
SPECIAL = {"pad_token": "pad_id", "unk_token": "unk_id", "eos_token": "eos_id"}


def read_marian(directory: str | os.PathLike[str], *, allow_pickle: bool = False) -> LoadedModel:
    """Returns the model of a Marian directory, with a config that translates as `generate` does.

    `allow_pickle` reads pytorch_model.bin if there is no model.safetensors; it needs torch.

    Raises FileNotFoundError for a missing file, and ValueError for an architecture that our model
    does not support, a vocabulary of the wrong size, wrong tensors and an invalid search.
    """
    directory = Path(directory)
    values = _read_json(directory / CONFIG)
    with _file_in_message(directory / CONFIG):
        marian = architecture.read_config(values)
        model_config = architecture.to_model_config(marian)
    with _file_in_message(directory):
        source, target = _read_vocabularies(directory, marian)
    tensors = weights.read_tensors(directory, allow_pickle=allow_pickle)
    model_config = dataclasses.replace(
        model_config, output_bias=weights.OUTPUT_BIAS.theirs in tensors
    )
    sizes = {"source_size": source.size, "target_size": target.size}
    with _file_in_message(directory):
        params = weights.to_params(tensors, model_config, **sizes)
    config = Config(
        data=_data_config(source, marian),
        model=model_config,
        training=FINE_TUNING,
        decoding=_decoding_config(directory, values, marian, target),
    )
    settings = dataclasses.asdict(config.data.tokenizer)
    tokenizer = Tokenizer(source, target, settings, languages_in(source.pieces))
    model = Transformer(model_config, source.size, target.size, target.bos_id)
    return LoadedModel(config, tokenizer, model, params, checkpoint="0")


def write_marian(directory: str | os.PathLike[str], loaded: LoadedModel) -> None:
    """Writes a directory that `MarianMTModel` and `MarianTokenizer` load; config.json comes last.

    Raises ValueError, with every reason, if Marian does not support the model, and FileExistsError
    if the directory is not empty.
    """
    config, tokenizer = loaded.config, loaded.tokenizer
    source, target = tokenizer.source, tokenizer.target
    architecture.check_can_be_marian(config.model)
    max_positions = max(config.data.max_source_length, config.decoding.max_target_length + 1)
    if not isinstance(source, MarianVocabulary):  # an imported model keeps its limit
        max_positions = max(max_positions, MIN_POSITIONS)
    files = _tokenizer_files(tokenizer, config.data, max_length=max_positions)
    directory = empty_directory(directory)
    for name, content in files.items():
        (directory / name).write_bytes(content)
    sizes = {"source_size": source.size, "target_size": target.size}
    tensors = weights.to_tensors(loaded.params, config.model, **sizes)
    weights.write_tensors(directory / weights.WEIGHTS, tensors)
    tags = tokenizer.target_tags if tokenizer.needs_tag else ()
    (directory / GENERATION).write_bytes(_json(to_generation_json(config.decoding, target, tags)))
    values = architecture.to_config_json(config.model, source, target, max_positions=max_positions)
    (directory / CONFIG).write_bytes(_json(values))


def _read_vocabularies(
    directory: Path, marian: MarianConfig
) -> tuple[MarianVocabulary, MarianVocabulary]:
    """Returns source and target vocabulary. Raises ValueError if they do not fit config.json."""
    start = marian.decoder_start_token_id
    source, target = read_marian_vocabularies(directory, bos_id=start)
    sides = zip((source, target), marian.vocab_sizes.items(), strict=True)
    for vocabulary, (name, size) in sides:
        if vocabulary.size != size:
            raise ValueError(
                f"{vocabulary.vocab_file} has {vocabulary.size} pieces, but the embeddings have "
                f"{size} rows ({name} in {CONFIG}); expected one piece for each row"
            )
        for key in ("pad_token_id", "eos_token_id"):
            found, expected = getattr(vocabulary, key.replace("_token", "")), getattr(marian, key)
            if found != expected:
                raise ValueError(
                    f"{key} is {expected} in {CONFIG}, but {vocabulary.pieces[found]!r} has "
                    f"the id {found} in {vocabulary.vocab_file}"
                )
    if not 0 <= start < target.size:
        raise ValueError(
            f"decoder_start_token_id is {start}, expected an id of the {target.size} target pieces"
        )
    return source, target


def _tokenizer_files(
    tokenizer: Tokenizer, config: DataConfig, *, max_length: int
) -> Mapping[str, bytes]:
    """Returns {file name: content} for `transformers.MarianTokenizer`.

    For an imported tokenizer, these are its own files. Ids and text are equal to ours, except that
    MarianTokenizer strips white space at both ends, and reads ">>xx<<" at the start as a language.
    """
    source, target = tokenizer.source, tokenizer.target
    if isinstance(source, MarianVocabulary):
        return source.files
    if not (
        isinstance(source, SentencePieceVocabulary) and isinstance(target, SentencePieceVocabulary)
    ):
        raise ValueError(
            "a Marian model needs SentencePiece vocabularies (data.tokenizer.kind sentencepiece or "
            "marian), because SentencePiece does not split text into words as kind word does"
        )
    for name, which in SPECIAL.items():
        ids = [getattr(side, which) for side in (source, target)]
        pieces = source.pieces[ids[0]], target.pieces[ids[1]]
        if ids[0] != ids[1] or pieces[0] != pieces[1]:
            raise ValueError(
                f"a Marian model has one {name} for both languages, but here it is "
                f"{pieces[0]!r} (id {ids[0]}) in the source and {pieces[1]!r} (id {ids[1]}) in the "
                "target vocabulary"
            )
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": config.source_language,
        "target_lang": config.target_language,
        "model_max_length": max_length,
        "separate_vocabs": not tokenizer.shared,
        # As in our tokenizer, the text of a special token does not become that token.
        "split_special_tokens": True,
        **{name: source.pieces[getattr(source, which)] for name, which in SPECIAL.items()},
    }
    sides = {VOCAB: source} if tokenizer.shared else {VOCAB: source, TARGET_VOCAB: target}
    for name, side in sides.items():
        if len(set(side.pieces)) < side.size:
            raise ValueError(
                f"{name} can have each piece only once, but this vocabulary has a piece twice"
            )
    return {
        MODELS["source"]: source.to_bytes(),
        MODELS["target"]: target.to_bytes(),
        SETTINGS: _json(settings),
        **{
            name: _json({piece: token for token, piece in enumerate(side.pieces)})
            for name, side in sides.items()
        },
    }


def _data_config(source: MarianVocabulary, marian: MarianConfig) -> DataConfig:
    longest = max(2, marian.max_position_embeddings)
    given = (source.settings.get(name) for name in ("source_lang", "target_lang"))
    # "und" means undetermined in ISO 639.
    languages = [name if isinstance(name, str) and name else "und" for name in given]
    return DataConfig(
        source_language=languages[0],
        target_language=languages[1],
        # Only the summary of a model uses vocab_size.
        tokenizer=TokenizerConfig(kind="marian", shared=False, vocab_size=source.size),
        max_source_length=longest,
        max_target_length=longest,
    )


def _decoding_config(
    directory: Path, values: Json, marian: MarianConfig, target: Vocabulary
) -> DecodingConfig:
    file = directory / CONFIG
    if (directory / GENERATION).is_file():
        file = directory / GENERATION
        values = _read_json(file)
        start = values.get("decoder_start_token_id")
        if start not in (None, target.bos_id):
            raise ValueError(
                f"{directory}: decoder_start_token_id is {target.bos_id} in {CONFIG} and {start} "
                f"in {GENERATION}; expected the same"
            )
    with _file_in_message(file):
        config = to_decoding_config(values, target, max_positions=marian.max_position_embeddings)
    # float32 keys and values of one sentence
    bytes_per_token = 2 * 4 * marian.d_model * marian.decoder_layers
    row = config.beam_size * config.max_target_length * bytes_per_token
    rows = max(1, min(config.max_rows_per_batch, MAX_CACHE_BYTES // row))
    return dataclasses.replace(config, max_rows_per_batch=rows)


@contextmanager
def _file_in_message(path: Path) -> Iterator[None]:
    """Prefixes the message of a ValueError with the file or directory."""
    try:
        yield
    except ValueError as error:
        if str(error).startswith(str(path)):
            raise
        raise ValueError(f"{path}: {error}") from error


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise missing_file(file)
    return parse_json_object(file.read_bytes(), str(file))


def _json(value: object) -> bytes:
    """Returns the content of a JSON file."""
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()
