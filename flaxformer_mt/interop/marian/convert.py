"""Hugging Face Marian directories, read and written: OPUS-MT models, and ours for `transformers`.

    config.json                  the architecture       marian_config
    generation_config.json       the search             marian_generation
    model.safetensors            the tensors            marian_weights, marian_table
    source.spm, vocab.json, ...  the vocabularies       marian_tokenizer, data.marian_vocabulary

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

from flaxformer_mt.config import Config
from flaxformer_mt.data.pipeline import DataConfig
from flaxformer_mt.data.sources.text_files import missing_file
from flaxformer_mt.data.tokenization.marian_vocabulary import (
    MarianVocabulary,
    read_marian_vocabularies,
)
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer, TokenizerConfig
from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.interop.marian.config import (
    DEFAULTS,
    Json,
    check_architecture,
    check_can_be_marian,
    to_config_json,
    to_model_config,
    vocabulary_sizes,
    with_defaults,
)
from flaxformer_mt.interop.marian.generation import to_decoding_config, to_generation_json
from flaxformer_mt.interop.marian.table import OUTPUT_BIAS
from flaxformer_mt.interop.marian.tokenizer import tokenizer_files
from flaxformer_mt.interop.marian.weights import (
    WEIGHTS,
    read_tensors,
    to_params,
    to_tensors,
    write_tensors,
)
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.checkpoint import LoadedModel
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.translation.config import DecodingConfig

CONFIG, GENERATION = "config.json", "generation_config.json"
CACHE_BYTES = 1 << 30
"""What the keys and values of a batch of hypotheses may take, at their longest."""
MORE_POSITIONS = 1024
FINE_TUNING = TrainingConfig(learning_rate=5e-5, warmup_steps=200)


def read_marian(directory: str | os.PathLike[str], *, allow_pickle: bool = False) -> LoadedModel:
    """The model of a Marian directory, with the config of a workdir that translates as it does.

    Args:
      directory: as `MarianMTModel.save_pretrained` and `MarianTokenizer.save_pretrained` write it.
      allow_pickle: read pytorch_model.bin where there is no model.safetensors; needs torch.

    Raises:
      FileNotFoundError: a file is lacking: says which, and what is there.
      ValueError: an architecture that ours cannot be, vocabularies that do not fit it, or tensors
        that are missing, surplus or of another shape, or a search that cannot be: says which, and
        what was expected.
    """
    directory = Path(directory)
    values = with_defaults(_read_json(directory / CONFIG), DEFAULTS)
    with _named(directory / CONFIG):
        check_architecture(values)
    source, target = _read_vocabularies(directory, values)
    tensors = read_tensors(directory, allow_pickle=allow_pickle)
    model_config = to_model_config(values, output_bias=OUTPUT_BIAS.theirs in tensors)
    with _named(directory):
        params = to_params(tensors, model_config, source_size=source.size, target_size=target.size)
    config = Config(
        data=_data_config(source, values),
        model=model_config,
        training=FINE_TUNING,
        decoding=_decoding_config(directory, values, target),
    )
    tokenizer = Tokenizer(source, target, dataclasses.asdict(config.data.tokenizer))
    model = Transformer(model_config, source.size, target.size, target.bos_id)
    return LoadedModel(config, tokenizer, model, params, checkpoint="0")


def write_marian(directory: str | os.PathLike[str], loaded: LoadedModel) -> None:
    """Writes a directory that `MarianMTModel` and `MarianTokenizer` load; config.json comes last.

    Raises:
      ValueError: a Marian model cannot be this one: says all the reasons.
      FileExistsError: the directory is there already and not empty.
    """
    directory = Path(directory)
    config, tokenizer = loaded.config, loaded.tokenizer
    check_can_be_marian(config.model)
    max_positions = _max_positions(config, tokenizer)
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
    source, target = tokenizer.source, tokenizer.target
    tensors = to_tensors(
        loaded.params, config.model, source_size=source.size, target_size=target.size
    )
    write_tensors(directory / WEIGHTS, tensors)
    _write_json(directory / GENERATION, to_generation_json(config.decoding, target))
    architecture = to_config_json(config.model, source, target, max_positions=max_positions)
    _write_json(directory / CONFIG, architecture)


def _max_positions(config: Config, tokenizer: Tokenizer) -> int:
    """Room for the longest sentences; `transformers` fails on longer ones, so with some to spare.

    A model that came from there keeps the number that it had.
    """
    spare = 0 if isinstance(tokenizer.source, MarianVocabulary) else MORE_POSITIONS
    return max(config.data.max_source_length, config.decoding.max_target_length + 1, spare)


def _read_vocabularies(directory: Path, values: Json) -> tuple[MarianVocabulary, MarianVocabulary]:
    """Source and target, if they fit config.json."""
    start = values["decoder_start_token_id"]
    source, target = read_marian_vocabularies(directory, bos_id=start)
    sizes = vocabulary_sizes(values)
    for vocabulary, name, size in (
        (source, "vocab_size", sizes[0]),
        (target, "decoder_vocab_size", sizes[1]),
    ):
        if vocabulary.size != size:
            raise ValueError(
                f"{directory}: {vocabulary.vocab_file} has {vocabulary.size} pieces, but the "
                f"embeddings have {size} rows ({name} in {CONFIG}); expected a piece for each row"
            )
        for key in ("pad_token_id", "eos_token_id"):
            found = getattr(vocabulary, key.replace("_token", ""))
            if found != values[key]:
                raise ValueError(
                    f"{directory}: {key} is {values[key]} in {CONFIG}, but "
                    f"{vocabulary.pieces[found]!r} has the id {found} in {vocabulary.vocab_file}"
                )
    if not 0 <= start < target.size:
        raise ValueError(
            f"{directory / CONFIG}: decoder_start_token_id is {start}, expected an id of the "
            f"{target.size} target pieces"
        )
    return source, target


def _data_config(source: MarianVocabulary, values: Json) -> DataConfig:
    longest = max(2, values["max_position_embeddings"])
    given = (source.settings.get(name) for name in ("source_lang", "target_lang"))
    # ISO 639: und(etermined)
    languages = [name if isinstance(name, str) and name else "und" for name in given]
    return DataConfig(
        source_language=languages[0],
        target_language=languages[1],
        # The size decides nothing, but a summary of the model takes it from here.
        tokenizer=TokenizerConfig(kind="marian", shared=False, vocab_size=source.size),
        max_source_length=longest,
        max_target_length=longest,
    )


def _decoding_config(directory: Path, values: Json, target: Vocabulary) -> DecodingConfig:
    file, generation = directory / CONFIG, values
    if (directory / GENERATION).is_file():
        file = directory / GENERATION
        generation = _read_json(file)
        start = generation.get("decoder_start_token_id")
        if start not in (None, target.bos_id):
            raise ValueError(
                f"{directory}: decoder_start_token_id is {target.bos_id} in {CONFIG} and {start} "
                f"in {GENERATION}; expected the same"
            )
    max_positions = values["max_position_embeddings"]
    with _named(file):
        config = to_decoding_config(generation, target, max_positions=max_positions)
    return dataclasses.replace(config, max_rows_per_batch=_rows_that_fit(config, values))


def _rows_that_fit(config: DecodingConfig, values: Json) -> int:
    """Sentences whose hypotheses are in memory at once: `generate` has no limit but max_length."""
    keys_and_values = 2 * 4 * values["d_model"] * values["decoder_layers"]
    row = config.beam_size * config.max_target_length * keys_and_values
    return max(1, min(DecodingConfig.max_rows_per_batch, CACHE_BYTES // row))


@contextmanager
def _named(place: Path) -> Iterator[None]:
    """Writes the file or directory before what a ValueError says."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise missing_file(file)
    try:
        values = json.loads(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file} is no JSON: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{file}: expected a JSON object, got {type(values).__name__}")
    return values


def _write_json(file: Path, values: Mapping[str, Any]) -> None:
    file.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
