"""Models with random parameters, in the form that `load_model` returns."""

import jax
import jax.numpy as jnp
import numpy as np

from flaxformer_mt.checkpoints.loading import LoadedModel
from flaxformer_mt.config import Config
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.translation.config import DecodingConfig


def random_model(
    config: TransformerConfig,
    tokenizer: Tokenizer,
    *,
    max_source_length: int = 16,
    max_target_length: int = 12,
) -> LoadedModel:
    source, target = tokenizer.source, tokenizer.target
    model = Transformer(config, source.size, target.size, target.bos_id)
    # Initial parameters have zeros and ones, which hide a misplaced bias or scale.
    rng = np.random.default_rng(1)
    shapes = jax.eval_shape(lambda: init_params(model, jax.random.key(0)))
    params = jax.tree.map_with_path(
        lambda path, x: jnp.asarray(rng.normal(path[-1].key == "scale", 0.5, x.shape), jnp.float32),
        shapes,
    )
    whole = Config(
        data=DataConfig(max_source_length=max_source_length, max_target_length=max_target_length),
        model=config,
        decoding=DecodingConfig(max_target_length=max_target_length),
    )
    return LoadedModel(whole, tokenizer, model, params, "0")
