"""The task that all contenders of a case share: text, weights and batches, as files."""

import dataclasses
import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import jax
import numpy as np

from benchmarks.rounds import installed, say
from flaxformer_mt.checkpoints.loading import LoadedModel
from flaxformer_mt.config import Config, save_config, to_json
from flaxformer_mt.data.batching.batch import Batch
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.pipeline import Data, build_data
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.interop.ctranslate2 import write_ctranslate2
from flaxformer_mt.interop.marian.convert import write_marian
from flaxformer_mt.interop.workdir import write_workdir
from flaxformer_mt.model.config import preset
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.training.config import TrainingConfig

Size = Literal["tiny", "small", "base", "big"]
TRAINED = Path(".cache/benchmarks/trained")
NEEDS: dict[str, tuple[str, ...]] = {
    "ours": (),
    "torch": ("torch",),
    "marian": ("torch", "transformers", "safetensors"),
    "ctranslate2": ("ctranslate2",),
}
"""Packages of the extra [bench] that a contender needs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Text:
    """The text of a benchmark."""

    data: str = ""
    """Folder that holds train.SOURCE, train.TARGET and a test file (test*.SOURCE) in two languages;
    empty = the demo text, which the package contains."""
    source_language: str = "en"
    """Suffix of the source files."""
    target_language: str = "de"
    """Suffix of the target files."""
    vocab_size: int = 0
    """Size of the shared vocabulary; 0 = 8,000, or 1,000 for the demo text."""
    tokens_per_batch: int = 4096
    """Limit of source tokens in a batch, and of target tokens, padding included."""
    num_buckets: int = 16
    """Limit of batch shapes, each of which is compiled."""

    @property
    def name(self) -> str:
        """The name of the text in tables."""
        return Path(self.data).name or "the demo text"

    def data_config(self) -> DataConfig:
        """Returns the data configuration.

        Raises FileNotFoundError for a folder without a test file.
        """
        train = CorpusConfig(pairs=("demo:train:30000",))
        test = CorpusConfig(pairs=("demo:test",))
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
            num_buckets=self.num_buckets,
        )

    def _corpus(self, stem: str) -> CorpusConfig:
        folder, name = Path(self.data), f"{stem}.{self.source_language}"
        found = sorted(folder.glob(name))
        if not found:
            there = ", ".join(sorted(path.name for path in folder.glob("*"))) or "nothing"
            raise FileNotFoundError(f"{folder} has no file {name}; there is {there}")
        source = found[0].name
        target = f"{found[0].stem}.{self.target_language}"
        return CorpusConfig(source=(source,), target=(target,))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model(Text):
    """The model that translates, and the contenders."""

    workdir: str = ""
    """A trained model that Marian and CTranslate2 support too; empty = train one, once."""
    size: Size = "small"
    """The model to train if no workdir is given."""
    train_steps: int = 1000
    """Number of updates of this training."""
    contenders: tuple[Literal["ours", "marian", "ctranslate2"], ...] = (
        "ours",
        "marian",
        "ctranslate2",
    )
    """The contenders; marian is Hugging Face's `generate`. Those not installed are left out."""

    def trained(self) -> str:
        """Returns the workdir of the model; trains it if that was not done before."""
        if self.workdir:
            return self.workdir
        config = make_config(self.size, self.data_config(), self.train_steps)
        digest = hashlib.sha256(to_json(config).encode()).hexdigest()[:12]
        workdir = TRAINED / f"{self.size}-{digest}"
        if not (workdir / "checkpoints" / str(self.train_steps)).is_dir():
            say(f"training {self.size} for {self.train_steps} updates, once, into {workdir}")
            place = workdir.with_suffix(".config")
            place.mkdir(parents=True, exist_ok=True)
            save_config(config, str(place))
            command = [sys.executable, "-m", "flaxformer_mt.train", "--workdir", str(workdir)]
            command += ["--config", f"{place}/config.json"]
            if status := subprocess.run(command, stdout=sys.stderr).returncode:
                raise ValueError(f"training {self.size} ended with status {status}, see above")
        return str(workdir)


def make_config(size: Size, data: DataConfig, num_steps: int = 1000) -> Config:
    """Returns the config of a model that Marian and CTranslate2 support too, with dropout 0.1."""
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


def untrained(config: Config, directory: Path) -> tuple[LoadedModel, Data]:
    """Writes a workdir with the parameters of step 0; returns the model and the data."""
    data = build_data(config.data, tokenizer_directory=f"{directory}/tokenizer", seed=config.seed)
    source, target = data.tokenizer.source, data.tokenizer.target
    model = Transformer(config.model, source.size, target.size, target.bos_id)
    params = init_params(model, jax.random.key(config.seed))
    loaded = LoadedModel(config, data.tokenizer, model, params, checkpoint="0")
    write_workdir(directory, loaded)
    return loaded, data


def export(loaded: LoadedModel, peer: str, directory: Path) -> str:
    """Returns a directory with the model for this peer; empty if the peer is not installed."""
    if installed(*NEEDS[peer]):
        write = {"marian": write_marian, "ctranslate2": write_ctranslate2}[peer]
        write(directory / peer, loaded)
    return str(directory / peer)


def sample_batches(data: Data, count: int) -> list[Batch]:
    """Returns `count` batches of the first epoch; each shape has its share."""
    plan = data.epochs.plan(0)
    by_shape = np.argsort([batch.shape for batch in plan.batches], kind="stable")
    places = np.linspace(0, len(plan) - 1, min(count, len(plan))).round().astype(int)
    return [plan.batch(int(index)) for index in by_shape[places]]


def one_of_each(data: Data) -> list[Batch]:
    """Returns one batch of each shape of the first epoch."""
    plan = data.epochs.plan(0)
    firsts = {batch.shape: index for index, batch in reversed(list(enumerate(plan.batches)))}
    return [plan.batch(index) for _, index in sorted(firsts.items())]


def target_tokens(batches: Sequence[Batch]) -> int:
    """Returns the number of target tokens with EOS and without padding."""
    return sum(int(np.count_nonzero(batch.targets_segment_ids)) for batch in batches)
