"""Sentences that are distributed to several devices get the same translations as on one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiers import slow_after

from flaxformer_mt.data.batching.batch import Batch
from flaxformer_mt.inference.devices import mesh_of, on_all_devices, shard_rows
from flaxformer_mt.inference.programs import SearchInputs, SearchProgram, score_batch, search_batch
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.search.loop import SearchSettings, SentenceOptions

VOCAB, ROWS = 40, 32
MODEL = Transformer(
    TransformerConfig(d_model=16, d_ff=24, num_heads=2, num_encoder_layers=1, num_decoder_layers=1),
    VOCAB,
    VOCAB,
    2,
)


@pytest.fixture(scope="module")
def params():
    return init_params(MODEL, jax.random.key(0))


def test_parameters_are_copied_to_all_devices_unless_there_is_one(params):
    assert mesh_of(params) is None
    mesh = mesh_of(on_all_devices(params))
    assert mesh is not None and mesh.size == jax.local_device_count() == 8


def test_rows_are_sharded_and_gathered():
    """Eight devices with three rows each: row i goes to device i % 8; other arrays go to all."""
    mesh = mesh_of(on_all_devices(jnp.zeros(3)))

    def work(shared, rows):
        numbered, of_all = rows
        here = jax.lax.axis_index("data")
        devices = jnp.full(numbered.shape[0], here)
        return numbered * shared + of_all, devices

    rows = jnp.arange(24), jnp.array([100])
    jitted = jax.jit(lambda shared, rows: shard_rows(work, mesh, shared, rows))
    found, device = jitted(2, rows)
    np.testing.assert_array_equal(found, np.arange(24) * 2 + 100)
    np.testing.assert_array_equal(device, np.arange(24) % 8)


@pytest.mark.parametrize("beam_size", slow_after(1, [3, 1]))
def test_search_and_score_find_the_same_on_eight_devices_as_on_one(params, beam_size):
    tokens = jax.random.randint(jax.random.key(1), (ROWS, 6), 5, VOCAB)
    limits = jnp.arange(ROWS) % 11
    settings = SearchSettings(
        jnp.zeros(VOCAB, bool), jnp.float32(1), bos_id=2, eos_id=3, pad_id=0, max_target_length=12
    )
    options = SearchInputs(SentenceOptions(limits), settings)
    positions, ones = jnp.broadcast_to(jnp.arange(6), (ROWS, 6)), jnp.ones_like(tokens)
    everywhere = on_all_devices(params)
    found, scored = [], []
    for values in (params, everywhere):
        mesh = mesh_of(values)
        program = SearchProgram((MODEL,), beam_size, 1, batch_slots=2, mesh=mesh)
        found.append(search_batch((values,), tokens, positions, ones, options, program=program))
        batch = Batch(tokens, tokens, positions, positions, ones, ones)
        scored.append(score_batch((values,), batch, jnp.float32(1), models=(MODEL,), mesh=mesh))
    jax.tree.map(np.testing.assert_array_equal, *found)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5), *scored)
