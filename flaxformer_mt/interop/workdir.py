"""Writes a workdir for a model of another tool, to translate and to train."""

import os
from pathlib import Path

import jax

from flaxformer_mt.checkpoints.loading import LoadedModel
from flaxformer_mt.checkpoints.manager import Checkpoints
from flaxformer_mt.config import save_config
from flaxformer_mt.training.optimizer import make_optimizer
from flaxformer_mt.training.state import init_state

FIRST_BATCH = {"data": {"epoch": 0, "index": 0}}  # see `training.state.Progress`


def write_workdir(workdir: str | os.PathLike[str], loaded: LoadedModel) -> None:
    """Writes the tokenizer, then the parameters as checkpoint 0, then config.json.

    The checkpoint has a fresh optimiser state, so `train` on this workdir starts from the
    parameters at step 0. Raises OSError if the workdir cannot be written.
    """
    config = loaded.config
    Path(workdir).mkdir(parents=True, exist_ok=True)
    loaded.tokenizer.save(Path(workdir, "tokenizer"))
    optimizer = make_optimizer(config.training, config.model.d_model)
    params = jax.device_put(loaded.params)
    state = init_state(loaded.model, optimizer, config.seed, params)
    checkpoints = Checkpoints(workdir, keep_last=1, keep_best=0)
    try:
        checkpoints.save(
            0,
            state,
            data_state=FIRST_BATCH,
            metrics=None,
            config=config,
            tokenizer_fingerprint=loaded.tokenizer.fingerprint,
        )
    finally:
        checkpoints.close()
    save_config(config, str(workdir))
