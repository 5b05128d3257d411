"""Bytes sent, read from HLO: text as compilers write it, and a program compiled here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from flaxformer_mt.planning.compiler import sent_bytes

TEXT = """\
HloModule jit_step, is_scheduled=true, num_partitions=8

%add (x: f32[], y: f32[]) -> f32[] {
  ROOT %sum = f32[] add(%x, %y)
}

%body (state: (s32[], f32[100])) -> (s32[], f32[100]) {
  %inner = bf16[4,100]{1,0:T(8,128)(2,1)} all-reduce(%g), replica_groups={{0,1},{2,3},{4,5},{6,7}}, to_apply=%add
}

%condition (state: (s32[], f32[100])) -> pred[] {
  %constant.3 = s32[]{:T(128)} constant(5)
  ROOT %lt = pred[] compare(%index, %constant.3), direction=LT
}

ENTRY %main (p: f32[100]) -> f32[100] {
  %pair = (f32[10]{0}, /*index=1*/f32[2,5]{1,0}) all-reduce(%a, %b), replica_groups=mesh['axis_0'=2,'axis_1'=4] {'axis_0'}, to_apply=%add
  %gather-start = (f32[10]{0}, f32[80]{0}) all-gather-start(%c), replica_groups=[1,8]<=[8], dimensions={0}
  %gather-done = f32[80]{0} all-gather-done(%gather-start)
  %scattered = f32[10]{0} reduce-scatter(%d), replica_groups={}, to_apply=%add
  %loop = (s32[], f32[100]) while(%tuple), condition=%condition, body=%body
  ROOT %use = f32[100] get-tuple-element(%all-reduce.7), index=1
}
"""  # noqa: E501


def test_kinds_and_bytes():
    sent = sent_bytes(TEXT, devices=8)
    # 80 bytes once in pairs, and 800 bytes in each of five iterations, in pairs too.
    assert sent == {"all-reduce": 80 + 5 * 800, "all-gather": 280, "reduce-scatter": 280}


def test_a_loop_of_known_length_and_one_of_unknown_length():
    known = TEXT.replace("body=%body", 'body=%body, backend_config={"known_trip_count":{"n":"7"}}')
    assert sent_bytes(known, devices=8)["all-reduce"] == 80 + 7 * 800
    unknown = TEXT.replace("direction=LT", "direction=NE")
    assert sent_bytes(unknown, devices=8)["all-reduce"] == 80 + 800


def test_collectives_in_a_called_computation_count_as_often_as_the_caller():
    inside = "%inside (g: f32[]) -> f32[] {\n  %inner = "
    call = f"  %call = f32[100] call(%g), to_apply=%inside\n}}\n\n{inside}"
    called = TEXT.replace("  %inner = ", call)
    assert sent_bytes(called, devices=8) == sent_bytes(TEXT, devices=8)


def test_a_fused_reduce_scatter_sends_half_of_its_all_reduce():
    """TPU programs have no reduce-scatter, but a fusion of an all-reduce and a slice."""
    fused = """
%all-reduce-scatter.1 (g: f32[80]) -> f32[10] {
  %whole = f32[80]{0} all-reduce(%g), replica_groups={}, to_apply=%add
  ROOT %part = f32[10]{0} dynamic-slice(%whole, %i), dynamic_slice_sizes={10}
}
"""
    call = "  %part = f32[10] fusion(%d), kind=kCustom, calls=%all-reduce-scatter.1\n  %loop"
    text = TEXT.replace("%body (state", f"{fused}\n%body (state").replace("  %loop", call)
    before, after = (sent_bytes(each, devices=8) for each in (TEXT, text))
    assert after - before == {"reduce-scatter": 280}  # as much as the plain one of 80 numbers


def test_the_context_of_an_asynchronous_start_is_not_sent():
    permute = (
        "  %c = (f32[100], f32[100], u32[], u32[]) collective-permute-start(%g), "
        "source_target_pairs={{0,1},{1,0}}\n"
    )
    text = TEXT.replace("  %inner = ", permute + "  %inner = ")
    assert sent_bytes(text, devices=8)["collective-permute"] == 400 * 5


def test_a_program_without_collectives():
    assert not sent_bytes("", devices=1)


@pytest.mark.skipif(jax.device_count() < 4, reason="needs 4 devices")
def test_a_program_compiled_here():
    mesh = Mesh(np.array(jax.devices()[:4]), "x")

    def program(x):
        def body(total, _):
            return total + jax.lax.psum(jnp.sin(total), "x"), None

        return jax.lax.scan(body, x, None, length=3)[0]

    spec = PartitionSpec("x")
    mapped = jax.shard_map(program, mesh=mesh, in_specs=spec, out_specs=spec)
    like = jax.ShapeDtypeStruct((4, 10), jnp.float32, sharding=NamedSharding(mesh, spec))
    text = jax.jit(mapped).lower(like).compile().as_text()
    assert sent_bytes(text, devices=4) == {"all-reduce": 180}
