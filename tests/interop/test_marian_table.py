"""The table: every tensor once, every parameter once, and there and back again."""

import jax
import numpy as np
import pytest
from marian_directories import SHAPE, tensor_shapes

from flaxformer_mt.interop.marian import table as names
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer

SIZES = {"D": 8, "N": 2, "H": 4, "F": 12, "V": 7, "Vs": 7}
TIED = {"all": (True, True), "target": (False, True), "none": (False, False)}


def rows_of(tie: str, encoder_layers: int = 2, decoder_layers: int = 1) -> list[names.Row]:
    return list(names.table(tie, encoder_layers=encoder_layers, decoder_layers=decoder_layers))


@pytest.mark.parametrize("tie", TIED)
def test_it_has_all_tensors_and_all_parameters_and_no_other(tie):
    share, tied = TIED[tie]
    expected = tensor_shapes(
        SHAPE
        | {"vocab_size": 7, "decoder_vocab_size": 7}
        | {"share_encoder_decoder_embeddings": share, "tie_word_embeddings": tied}
    )
    rows = rows_of(tie)
    assert {row.theirs: names.tensor_shape(row, SIZES) for row in rows} == expected
    assert len(rows) == len(expected)

    config = TransformerConfig(
        d_model=8,
        d_ff=12,
        num_heads=2,
        num_encoder_layers=2,
        num_decoder_layers=1,
        tie_embeddings=tie,
        output_bias=True,
    )
    model = Transformer(config, source_vocab_size=7, target_vocab_size=7, bos_id=2)
    params = jax.eval_shape(lambda: init_params(model, jax.random.key(0)))
    shapes = {path: leaf.shape for path, leaf in names.flat(params).items()}
    assert {row.ours: names.parameter_shape(row, SIZES) for row in rows} == shapes


def test_heads_are_cut_as_torch_cuts_them(rng):
    """Theirs: y = x W^T, viewed as [N, H]. Ours: one product with [D N H]."""
    row = next(row for row in rows_of("all") if row.theirs.endswith("self_attn.q_proj.weight"))
    weight, x = rng.normal(size=(8, 8)).astype(np.float32), rng.normal(size=8)
    ours = names.to_parameter(row, weight, SIZES)
    np.testing.assert_allclose(np.einsum("D,DNH->NH", x, ours), (weight @ x).reshape(2, 4))
    row = next(row for row in rows_of("all") if row.theirs.endswith("self_attn.out_proj.weight"))
    ours, heads = names.to_parameter(row, weight, SIZES), rng.normal(size=(2, 4))
    np.testing.assert_allclose(np.einsum("NH,NHD->D", heads, ours), weight @ heads.reshape(-1))


def test_there_and_back_is_exact(rng):
    channels = names.half_split_channels(8)
    back = np.argsort(channels)
    for row in rows_of("none"):
        tensor = rng.normal(size=names.tensor_shape(row, SIZES)).astype(np.float32)
        parameter = names.to_parameter(row, tensor, SIZES)
        same = names.to_tensor(row, parameter, SIZES, np.arange(8))
        np.testing.assert_array_equal(same, tensor)
        moved = names.to_parameter(row, names.to_tensor(row, parameter, SIZES, channels), SIZES)
        axes = row.axes.split()
        restored = moved.take(back, axis=axes.index("D")) if "D" in axes else moved
        np.testing.assert_array_equal(restored, parameter)


def test_a_tree_is_flattened_and_nested():
    tree = {"a": {"b": {"c": 1}, "d": 2}, "e": 3}
    assert names.flat(tree) == {"a/b/c": 1, "a/d": 2, "e": 3}
    assert names.nested(names.flat(tree)) == tree
