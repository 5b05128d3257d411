"""Conversion of single parameters, and of whole models by the table of each format."""

import numpy as np
import pytest

from flaxformer_mt.interop.parameter_table import Row, layer_rows, linear, norm
from flaxformer_mt.model.config import TransformerConfig

SIZES = {"D": 8, "N": 2, "H": 4}
ROWS = [
    Row("query/kernel", "D N H", "q.weight", "(N H) D"),
    Row("out/kernel", "N H D", "out.weight", "D (N H)"),
    Row("bias", "D", "bias", "1 D"),
    Row("table", "N D", "table", "N D"),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.ours)
def test_a_tensor_becomes_a_parameter_and_the_same_tensor(rng, row):
    tensor = rng.normal(size=row.tensor_shape(SIZES)).astype(np.float32)
    parameter = row.to_parameter(tensor, SIZES)
    assert parameter.shape == row.parameter_shape(SIZES)
    np.testing.assert_array_equal(row.to_tensor(parameter, SIZES), tensor)


def test_heads_are_split_as_torch_splits_them(rng):
    """Theirs: y = x W^T, viewed as [N, H]. Ours: one product with [D N H]."""
    weight, x = rng.normal(size=(8, 8)).astype(np.float32), rng.normal(size=8)
    ours = ROWS[0].to_parameter(weight, SIZES)
    np.testing.assert_allclose(np.einsum("D,DNH->NH", x, ours), (weight @ x).reshape(2, 4))
    ours, heads = ROWS[1].to_parameter(weight, SIZES), rng.normal(size=(2, 4))
    np.testing.assert_allclose(np.einsum("NH,NHD->D", heads, ours), weight @ heads.reshape(-1))


def test_a_short_axis_is_padded_with_zeros(rng):
    kernel = rng.normal(size=(8, 2, 3)).astype(np.float32)
    tensor = ROWS[0].to_tensor(kernel, {"H": 4}).reshape(2, 4, 8)
    np.testing.assert_array_equal(tensor[:, :3], kernel.transpose(1, 2, 0))
    assert not tensor[:, 3].any()


def test_helpers_name_both_sides():
    assert linear("query", "q", "D", "N H") == (
        Row("query/kernel", "D N H", "q.weight", "(N H) (D)"),
        Row("query/bias", "N H", "q.bias", "(N H)"),
    )
    config = TransformerConfig(num_encoder_layers=1, num_decoder_layers=2)
    rows = layer_rows(config, (), norm("layer_norm", "norm", bias="beta"), "{side}.layers.{i}")
    *_, scale, bias = rows
    assert scale == Row("decoder_1/layer_norm/scale", "D", "decoder.layers.1.norm.weight", "D")
    assert bias.theirs == "decoder.layers.1.norm.beta"
