"""What devices send, read off HLO: texts as compilers write them, and one compiled here."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from flaxformer_mt.planning.collectives import Collective, count_collectives

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


def test_kinds_counts_and_bytes():
    found = {one.kind: one for one in count_collectives(TEXT, devices=8)}
    # 80 bytes once in pairs, and 800 bytes five times round the loop, in pairs too.
    assert found["all-reduce"] == Collective("all-reduce", 6, 80 + 5 * 800, 80 + 5 * 800)
    assert found["all-gather"] == Collective("all-gather", 1, 320, 280)
    assert found["reduce-scatter"] == Collective("reduce-scatter", 1, 40, 280)
    assert found.keys() == {"all-reduce", "all-gather", "reduce-scatter"}


def test_a_loop_of_known_length_and_one_that_is_not():
    known = TEXT.replace("body=%body", 'body=%body, backend_config={"known_trip_count":{"n":"7"}}')
    assert count_collectives(known, devices=8)[0].count == 8
    unknown = TEXT.replace("direction=LT", "direction=NE")
    assert count_collectives(unknown, devices=8)[0].count == 2


def test_no_program_no_collectives():
    assert count_collectives("", devices=1) == []


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
    assert count_collectives(text, devices=4) == [Collective("all-reduce", 3, 120, 180)]
