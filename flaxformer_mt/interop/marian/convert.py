"""Reads and writes directories of Hugging Face Marian models.

    config.json                  the architecture       marian.config
    generation_config.json       the search             marian.generation
    model.safetensors            the tensors            marian.weights, marian.table
    source.spm, vocab.json, ...  the vocabularies       marian.tokenizer, data.marian_vocabulary

`write_marian(out, read_marian(directory))` writes the same tensors, bit for bit, and the same
tokenizer files.
"""

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flaxformer_mt.checkpoints.loading import LoadedModel
from flaxformer_mt.config import Config
from flaxformer_mt.data.pipeline import DataConfig
from flaxformer_mt.data.sources.files import missing_file
from flaxformer_mt.data.tokenization.marian_vocabulary import (
    MarianVocabulary,
    parse_json_object,
    read_marian_vocabularies,
)
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer, TokenizerConfig
from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.interop.marian import config as architecture
from flaxformer_mt.interop.marian import weights
from flaxformer_mt.interop.marian.config import Json, MarianConfig
from flaxformer_mt.interop.marian.generation import to_decoding_config, to_generation_json
from flaxformer_mt.interop.marian.table import OUTPUT_BIAS
from flaxformer_mt.interop.marian.tokenizer import json_file, tokenizer_files
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.translation.config import DecodingConfig

CONFIG, GENERATION = "config.json", "generation_config.json"
MAX_CACHE_BYTES = 1 << 30  # of keys and values of a batch, at the greatest length
MIN_POSITIONS = 1024  # of an export; transformers fails on longer sentences
FINE_TUNING = TrainingConfig(learning_rate=5e-5, warmup_steps=200)


def read_marian(directory: str | os.PathLike[str], *, allow_pickle: bool = False) -> LoadedModel:
    """Returns the model of a Marian directory, with a config that translates as `generate` does.

    Args:
      directory: from `MarianMTModel.save_pretrained` and `MarianTokenizer.save_pretrained`.
      allow_pickle: read pytorch_model.bin if there is no model.safetensors; needs torch.

    Raises:
      FileNotFoundError: a file is missing. The message names it, and lists the existing files.
      ValueError: our model does not support the architecture; a vocabulary has the wrong size;
        tensors are missing, surplus or wrong; or the search is invalid. The message says what was
        expected.
    """
    directory = Path(directory)
    values = _read_json(directory / CONFIG)
    with _file_in_message(directory / CONFIG):
        marian = architecture.read_config(values)
        model_config = architecture.to_model_config(marian)
    with _file_in_message(directory):
        source, target = _read_vocabularies(directory, marian)
    tensors = weights.read_tensors(directory, allow_pickle=allow_pickle)
    model_config = dataclasses.replace(model_config, output_bias=OUTPUT_BIAS.theirs in tensors)
    sizes = {"source_size": source.size, "target_size": target.size}
    with _file_in_message(directory):
        params = weights.to_params(tensors, model_config, **sizes)
    config = Config(
        data=_data_config(source, marian),
        model=model_config,
        training=FINE_TUNING,
        decoding=_decoding_config(directory, values, marian, target),
    )
    tokenizer = Tokenizer(source, target, dataclasses.asdict(config.data.tokenizer))
    model = Transformer(model_config, source.size, target.size, target.bos_id)
    return LoadedModel(config, tokenizer, model, params, checkpoint="0")


def write_marian(directory: str | os.PathLike[str], loaded: LoadedModel) -> None:
    """Writes a directory that `MarianMTModel` and `MarianTokenizer` load; config.json comes last.

    Raises:
      ValueError: Marian does not support the model. The message lists every reason.
      FileExistsError: the directory exists and is not empty.
    """
    directory = Path(directory)
    config, tokenizer = loaded.config, loaded.tokenizer
    source, target = tokenizer.source, tokenizer.target
    architecture.check_can_be_marian(config.model)
    max_positions = max(config.data.max_source_length, config.decoding.max_target_length + 1)
    if not isinstance(source, MarianVocabulary):  # an imported model keeps its number
        max_positions = max(max_positions, MIN_POSITIONS)
    files = tokenizer_files(
        tokenizer,
        source_language=config.data.source_language,
        target_language=config.data.target_language,
        max_length=max_positions,
    )
    if directory.exists() and any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty: write to a new directory")
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_bytes(content)
    sizes = {"source_size": source.size, "target_size": target.size}
    tensors = weights.to_tensors(loaded.params, config.model, **sizes)
    weights.write_tensors(directory / weights.WEIGHTS, tensors)
    (directory / GENERATION).write_bytes(json_file(to_generation_json(config.decoding, target)))
    values = architecture.to_config_json(config.model, source, target, max_positions=max_positions)
    (directory / CONFIG).write_bytes(json_file(values))


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


def _data_config(source: MarianVocabulary, marian: MarianConfig) -> DataConfig:
    longest = max(2, marian.max_position_embeddings)
    given = (source.settings.get(name) for name in ("source_lang", "target_lang"))
    # ISO 639: und(etermined)
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
