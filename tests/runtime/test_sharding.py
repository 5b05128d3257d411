"""The mesh and the sharding rules; a wrong combination is refused by name."""

import dataclasses

import jax
import pytest
from jax.sharding import PartitionSpec

from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.initialization import boxed_params, init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.sharding import (
    MeshConfig,
    make_mesh,
    parse_memory,
    process_rows,
    state_shardings,
)

DEVICES = jax.devices()
MODEL = Transformer(
    TransformerConfig(d_model=16, d_ff=32, num_encoder_layers=1, num_decoder_layers=1), 12, 12, 2
)
pytestmark = pytest.mark.skipif(len(DEVICES) < 8, reason="needs 8 devices")


def shardings(model: Transformer, config: MeshConfig):
    key = jax.random.key(0)
    boxed = jax.eval_shape(lambda: boxed_params(model, key))
    plain = jax.eval_shape(lambda: init_params(model, key))
    return state_shardings(plain, boxed, make_mesh(config, DEVICES[:8]))


def test_all_axes_of_the_rules():
    found = shardings(MODEL, MeshConfig(fsdp=2, tensor=4))
    layer = found["decoder_0"]
    assert layer["self_attention"]["query"]["kernel"].spec == PartitionSpec("fsdp", "tensor", None)
    assert layer["self_attention"]["out"]["kernel"].spec == PartitionSpec("tensor", None, "fsdp")
    assert layer["feed_forward"]["in"]["kernel"].spec == PartitionSpec("fsdp", "tensor")
    assert layer["feed_forward"]["in"]["bias"].spec == PartitionSpec("tensor")
    assert found["target_embedding"]["table"].spec == PartitionSpec("tensor", "fsdp")


def test_data_parallelism_splits_no_parameter():
    assert all(x.is_fully_replicated for x in jax.tree.leaves(shardings(MODEL, MeshConfig())))


def test_a_mesh_of_another_number_of_devices_is_refused():
    with pytest.raises(ValueError, match=r"2 x 3 x 1 = 6 devices, but there are 8"):
        make_mesh(MeshConfig(fsdp=3), DEVICES[:8])
    with pytest.raises(ValueError, match=r"4 x 1 x 1 = 4 devices, but there are 8"):
        make_mesh(MeshConfig(data=4), DEVICES[:8])


def test_a_dimension_that_does_not_divide_stays_whole():
    odd = MODEL.clone(source_vocab_size=13, target_vocab_size=13)
    found = shardings(odd, MeshConfig(fsdp=2, tensor=2))
    assert found["target_embedding"]["table"].spec == PartitionSpec(None, "fsdp")


@pytest.mark.parametrize("name", ["fsdp", "tensor"])
def test_an_axis_without_a_device_is_refused(name):
    with pytest.raises(ValueError, match=f"mesh.{name} must be at least 1, got 0"):
        MeshConfig(**{name: 0})


def test_devices_along_tensor_read_the_same_rows():
    rows = process_rows(make_mesh(MeshConfig(fsdp=2, tensor=2), DEVICES[:8]))
    assert (rows.shards, rows.own_shards) == (4, (0, 1, 2, 3))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("12GB", 12_000_000_000), ("1.5 gib", 1_610_612_736), ("900 kB", 900_000), ("", 0)],
)
def test_memory_with_a_unit(text, expected):
    assert parse_memory(text) == expected


@pytest.mark.parametrize("text", ["much", "12 XB", "GB", "12", "900 B", "12.", "MiB 12"])
def test_an_unreadable_memory_size_is_refused(text):
    with pytest.raises(ValueError, match=r"such as 12GB or 900MiB, got"):
        MeshConfig(memory_limit=text)


def test_every_logical_axis_has_a_rule():
    """The rules have all axis names of every variant of the model."""
    for positions in ("learned", "relative", "bucketed", "rotary"):
        config = dataclasses.replace(MODEL.config, positions=positions, num_kv_heads=2)
        shardings(MODEL.clone(config=config), MeshConfig())
