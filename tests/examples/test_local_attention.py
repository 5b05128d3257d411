"""Blocked local attention against the package's masked attention."""

import functools

import jax
import numpy as np
import pytest
from random_params import random_params

import local_attention
from flaxformer_mt.inspection.flops import jaxpr_flops
from flaxformer_mt.model import attention
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.kernels import Kernels
from flaxformer_mt.model.transformer import Transformer
from single_stack import SingleStack
from small_runs import make_rows, pair_arguments


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("length", "window"), [(13, 4), (12, 4), (5, 8)])
def test_equals_masked_attention(length, window, causal):
    inputs = local_attention.make_inputs(length, window, causal=causal)
    blocked = jax.jit(functools.partial(local_attention.local_attend, window=window))(*inputs)
    np.testing.assert_allclose(blocked, jax.jit(attention.attend)(*inputs), atol=1e-5)


def test_its_work_grows_with_the_length_and_not_with_its_square():
    def flops(length):
        blocked = functools.partial(local_attention.local_attend, window=8)
        return jaxpr_flops(jax.make_jaxpr(blocked)(*local_attention.make_inputs(length, 8)))

    assert flops(256) == 2 * flops(128)


def test_serves_as_a_kernel_of_the_package():
    attend = functools.partial(local_attention.local_attend, window=4)
    sizes = {"d_model": 8, "d_ff": 8, "num_heads": 2, "num_encoder_layers": 1}
    config = TransformerConfig(**sizes, local_window=4)
    rows = make_rows([[4, 5, 6, 7, 8, 9, 4, 5, 6], [5, 6, 7]])
    plain = SingleStack(config, 10)
    params = random_params(plain, *rows)
    blocked = plain.clone(kernels=Kernels(name="blocked", attend=attend))
    expected, found = (jax.jit(m.apply)({"params": params}, *rows) for m in (plain, blocked))
    real = rows.segment_ids != 0
    np.testing.assert_allclose(found[real], expected[real], atol=1e-5)


def test_source_attention_of_equal_length_uses_the_reference():
    attend = functools.partial(local_attention.local_attend, window=4)
    sizes = {"d_model": 8, "d_ff": 8, "num_heads": 2, "num_encoder_layers": 1}
    config = TransformerConfig(**sizes, num_decoder_layers=1, local_window=4)
    plain = Transformer(config, 10, 10, bos_id=2)
    rows = make_rows([[4, 5, 6, 7, 8, 9, 4, 5, 6], [5, 6, 7, 4, 4, 4, 4, 4, 8]])
    inputs = pair_arguments(rows, rows)
    params = random_params(plain, *inputs)
    blocked = plain.clone(kernels=Kernels(name="blocked", attend=attend))
    expected, found = (jax.jit(m.apply)({"params": params}, *inputs) for m in (plain, blocked))
    np.testing.assert_allclose(found, expected, atol=1e-5)
