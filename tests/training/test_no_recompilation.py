"""A run compiles all its programs in the first epoch."""

import dataclasses

import pytest
from tiny_run import WITHOUT_DROPOUT

from flaxformer_mt.checkpoints.manager import Checkpoints
from flaxformer_mt.data.pipeline import build_data
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.train import train


@pytest.mark.slow
def test_after_the_first_epoch_nothing_is_compiled(tmp_path, monkeypatch, compilations):
    """The epochs have updates of every shape, log lines, validations and checkpoints."""
    data = dataclasses.replace(
        WITHOUT_DROPOUT.data,
        train=CorpusConfig(pairs=("demo:train:100",)),
        tokenizer=TokenizerConfig(vocab_size=400),
        num_buckets=2,
    )
    epochs = build_data(data, tokenizer_directory=str(tmp_path / "tokenizer"), seed=0).epochs
    one_epoch = len(epochs.plan(0))
    assert len(epochs.shapes) == 2
    config = dataclasses.replace(
        WITHOUT_DROPOUT,
        data=data,
        training=dataclasses.replace(
            WITHOUT_DROPOUT.training,
            num_steps=2 * one_epoch + one_epoch // 2,
            validate_every=one_epoch,
            checkpoint_every=one_epoch // 2,
        ),
    )
    when_saved: dict[int, int] = {}
    save = Checkpoints.save

    def save_and_count(self: Checkpoints, step: int, *args, **kwargs) -> None:
        save(self, step, *args, **kwargs)
        self.wait()
        when_saved[step] = len(compilations)

    monkeypatch.setattr(Checkpoints, "save", save_and_count)
    train(config, str(tmp_path / "run"), quiet=True)
    assert list(when_saved)[-1] == config.training.num_steps
    first, last = when_saved[one_epoch], when_saved[config.training.num_steps]
    assert compilations[:first].count("jit(train_step)") == 2  # the counter works
    assert compilations[first:last] == []
