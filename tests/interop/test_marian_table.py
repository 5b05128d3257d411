"""The table of Marian's tensors: every tensor once, and every parameter once."""

import jax
import pytest
from flax.traverse_util import flatten_dict
from marian_directories import SHAPE, tensor_shapes

from flaxformer_mt.interop.marian.weights import axis_sizes, table
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer

TIED = {"all": (True, True), "target": (False, True), "none": (False, False)}


@pytest.mark.parametrize("tie", TIED)
def test_it_has_all_tensors_and_all_parameters_and_no_other(tie):
    share, tied = TIED[tie]
    expected = tensor_shapes(
        SHAPE
        | {"vocab_size": 7, "decoder_vocab_size": 7}
        | {"share_encoder_decoder_embeddings": share, "tie_word_embeddings": tied}
    )
    config = TransformerConfig(
        d_model=8,
        d_ff=12,
        num_heads=2,
        num_encoder_layers=2,
        num_decoder_layers=1,
        tie_embeddings=tie,
        output_bias=True,
    )
    rows, sizes = list(table(config)), axis_sizes(config, 7, 7)
    assert {row.theirs: row.tensor_shape(sizes) for row in rows} == expected
    assert len(rows) == len(expected)

    model = Transformer(config, source_vocab_size=7, target_vocab_size=7, bos_id=2)
    params = jax.eval_shape(lambda: init_params(model, jax.random.key(0)))
    shapes = {path: leaf.shape for path, leaf in flatten_dict(params, sep="/").items()}
    assert {row.ours: row.parameter_shape(sizes) for row in rows} == shapes
