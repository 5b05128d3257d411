"""What all contenders of a case share: text, batches, weights. Made by our own code, as files."""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from benchmarks.rounds import say
from flaxformer_mt.data.batch import Batch, BatchShape

if TYPE_CHECKING:
    from flaxformer_mt.config import Config
    from flaxformer_mt.data.pipeline import Data, DataConfig
    from flaxformer_mt.decoding.config import DecodingConfig
    from flaxformer_mt.training.checkpoint import LoadedModel

Size = Literal["tiny", "small", "base", "big"]
TRAINED = Path(".cache/benchmarks/trained")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Text:
    """Which text to work on."""

    data: str = ""
    """Folder that holds train.SOURCE, train.TARGET and a test file (test*.SOURCE) in two languages;
    empty = the built-in grammar, which needs no data."""
    source_language: str = "en"
    """SOURCE."""
    target_language: str = "de"
    """TARGET."""
    vocab_size: int = 0
    """Of the vocabulary, shared; 0 = 8,000, or 1,000 for the built-in grammar."""
    tokens_per_batch: int = 4096
    """Source cells and target cells of a batch each, padding included."""

    @property
    def name(self) -> str:
        """For tables."""
        return Path(self.data).name or "the built-in grammar"

    def data_config(self) -> "DataConfig":
        """The same, as `train` is told.

        Raises FileNotFoundError for a folder without a test file.
        """
        from flaxformer_mt.data.pipeline import DataConfig
        from flaxformer_mt.data.sources import CorpusConfig
        from flaxformer_mt.data.tokenizer import TokenizerConfig

        train = CorpusConfig(pairs=("grammar:train:30000",))
        test = CorpusConfig(pairs=("grammar:test:1000",))
        if self.data:
            train, test = (self._corpus(name) for name in ("train", "test*"))
        return DataConfig(
            directory=str(Path(self.data or ".").absolute()),
            source_language=self.source_language,
            target_language=self.target_language,
            train=train,
            test=test,
            tokenizer=TokenizerConfig(vocab_size=self.vocab_size or (8000 if self.data else 1000)),
            tokens_per_batch=self.tokens_per_batch,
        )

    def _corpus(self, stem: str):
        from flaxformer_mt.data.sources import CorpusConfig

        found = sorted(Path(self.data).glob(f"{stem}.{self.source_language}"))
        if not found:
            there = ", ".join(sorted(path.name for path in Path(self.data).glob("*"))) or "nothing"
            raise FileNotFoundError(
                f"{self.data} has no file {stem}.{self.source_language}; there is {there}"
            )
        source = found[0].name
        target = f"{found[0].stem}.{self.target_language}"
        return CorpusConfig(source=(source,), target=(target,))


def use_cpu() -> None:
    """Leaves the accelerator to the contenders: this process only prepares."""
    import jax

    jax.config.update("jax_platforms", "cpu")


def make_config(size: Size, data: "DataConfig", num_steps: int = 1000) -> "Config":
    """A model that Hugging Face Marian and CTranslate2 can hold too; dropout 0.1 in all sizes."""
    from flaxformer_mt.config import Config
    from flaxformer_mt.model.config import preset
    from flaxformer_mt.training.config import TrainingConfig

    model = dataclasses.replace(preset(size), dropout=0.1)
    return Config(
        data=data,
        model=model,
        training=TrainingConfig(
            num_steps=num_steps,
            learning_rate=0.25 / model.d_model,
            warmup_steps=max(1, num_steps // 5),
            validate_every=0,
            checkpoint_every=num_steps,
        ),
    )


def untrained(config: "Config", directory: Path) -> tuple["LoadedModel", "Data"]:
    """A workdir with the parameters of step 0, and the data of its config."""
    import jax

    from flaxformer_mt.data.pipeline import build_data
    from flaxformer_mt.interop.workdir import write_workdir
    from flaxformer_mt.model.transformer import Transformer
    from flaxformer_mt.training.checkpoint import LoadedModel
    from flaxformer_mt.training.state import init_params

    data = build_data(config.data, tokenizer_directory=f"{directory}/tokenizer", seed=config.seed)
    source, target = data.tokenizer.source, data.tokenizer.target
    model = Transformer(config.model, source.size, target.size, target.bos_id)
    params = init_params(model, jax.random.key(config.seed))
    loaded = LoadedModel(config, data.tokenizer, model, params, checkpoint="0")
    write_workdir(directory, loaded)
    return loaded, data


def trained(size: Size, data: "DataConfig", num_steps: int) -> Path:
    """The workdir of a model trained so; trained now, unless that was done before."""
    from flaxformer_mt.config import save_config, to_json

    config = make_config(size, data, num_steps)
    digest = hashlib.sha256(to_json(config).encode()).hexdigest()[:12]
    workdir = TRAINED / f"{size}-{digest}"
    if (workdir / "checkpoints" / str(num_steps)).is_dir():
        return workdir
    say(f"training {size} for {num_steps} updates, once, into {workdir}")
    place = TRAINED / f"{size}-{digest}.config"
    place.mkdir(parents=True, exist_ok=True)
    save_config(config, str(place))
    train = [sys.executable, "-m", "flaxformer_mt.train", "--config", f"{place}/config.json"]
    subprocess.run([*train, "--workdir", str(workdir)], check=True, stdout=sys.stderr)
    return workdir


def sample_batches(data: "Data", count: int) -> list[Batch]:
    """So many batches of the first epoch, of each shape its share."""
    plan = data.epochs.plan(0)
    by_shape = np.argsort(plan.shape_of, kind="stable")
    places = np.linspace(0, len(plan) - 1, min(count, len(plan))).round().astype(int)
    return [plan.batch(int(index)) for index in by_shape[places]]


def one_of_each(data: "Data") -> list[Batch]:
    """A batch of each shape that the first epoch has."""
    plan = data.epochs.plan(0)
    return [plan.batch(int(index)) for index in np.unique(plan.shape_of, return_index=True)[1]]


def write_batches(file: Path, batches: Sequence[Batch]) -> None:
    """One .npz; arrays are named by batch and field."""
    named = {f"{i}.{k}": v for i, batch in enumerate(batches) for k, v in batch._asdict().items()}
    np.savez(file, **named)


def read_batches(file: str | os.PathLike[str]) -> list[Batch]:
    """What `write_batches` wrote."""
    with np.load(file) as arrays:
        count = len(arrays.files) // len(Batch._fields)
        return [Batch(*(arrays[f"{i}.{k}"] for k in Batch._fields)) for i in range(count)]


def shape_of(batch: Batch) -> BatchShape:
    """Rows, source length and target length."""
    (rows, source_length), (_, target_length) = batch.inputs.shape, batch.targets.shape
    return BatchShape(rows, source_length, target_length)


def target_tokens(batches: Sequence[Batch]) -> int:
    """Real ones: padding is no work done, EOS is."""
    return sum(int(np.count_nonzero(batch.targets_segment_ids)) for batch in batches)


def search_rules(beam_size: int, *, length: int = 0, batch: int = 64) -> "DecodingConfig":
    """The search that ours, Hugging Face and CTranslate2 all have, without a handicap for any.

    A score is log-probability / tokens; a beam is done when `beam_size` hypotheses have ended; no
    token is forbidden, which spares the others their rules for that.

    Args:
      beam_size: 1 is greedy search.
      length: 0, or how many tokens each translation has, EOS included.
      batch: sentences together.
    """
    from flaxformer_mt.decoding.config import DecodingConfig

    usual = DecodingConfig(
        beam_size=beam_size,
        length_penalty=1.0,
        length_normalization="average",
        early_stopping="first",
        forced_end="free",
        allow_special=True,
        allow_unknown=True,
        max_rows_per_batch=batch,
        tokens_per_batch=batch * 256,
    )
    if not length:
        return usual
    return dataclasses.replace(
        usual, min_target_length=length, max_target_length=length, target_length_margin=length
    )


def write_sentences(file: Path, sources: Sequence[Sequence[int]]) -> None:
    """Token ids, EOS at the end."""
    file.write_text(json.dumps([list(map(int, source)) for source in sources]))


def read_sentences(file: str | os.PathLike[str]) -> list[list[int]]:
    """What `write_sentences` wrote."""
    return json.loads(Path(file).read_text())
