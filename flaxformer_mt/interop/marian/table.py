"""Which tensor of a Hugging Face Marian model is which parameter of ours: one table, both ways.

A row names a parameter and its axes, and a tensor and its layout, in axis letters as an einsum or
einops would have them:

    "query/kernel"  "D N H"    "q_proj.weight"  "(N H) D"

says that q_proj.weight has the shape [N * H, D], and that its transpose, cut into heads, is our
query kernel. Letters: D model width, N heads, H head width, F feed-forward width, V target
vocabulary, Vs source vocabulary; 1 is an axis of that length that only the tensor has.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

Tensors = Mapping[str, Float[np.ndarray, "..."]]


class Row(NamedTuple):
    """One parameter and its tensor."""

    ours: str
    """Path in the parameter tree."""
    axes: str
    theirs: str
    """Name of the tensor that is written, and looked for first."""
    layout: str
    aliases: tuple[str, ...] = ()
    """Other names under which the same numbers may be stored, instead or beside."""


LINEAR_IN = (("kernel", "D N H", "weight", "(N H) D"), ("bias", "N H", "bias", "(N H)"))
LINEAR_OUT = (("kernel", "N H D", "weight", "D (N H)"), ("bias", "D", "bias", "D"))
FEED_IN = (("kernel", "D F", "weight", "F D"), ("bias", "F", "bias", "F"))
FEED_OUT = (("kernel", "F D", "weight", "D F"), ("bias", "D", "bias", "D"))
NORM = (("scale", "D", "weight", "D"), ("bias", "D", "bias", "D"))

ATTENTION = (
    ("query", "q_proj", LINEAR_IN),
    ("key", "k_proj", LINEAR_IN),
    ("value", "v_proj", LINEAR_IN),
    ("out", "out_proj", LINEAR_OUT),
)
FEED_FORWARD = (
    ("feed_forward/in", "fc1", FEED_IN),
    ("feed_forward/out", "fc2", FEED_OUT),
    ("feed_forward_residual/layer_norm", "final_layer_norm", NORM),
)
ENCODER_LAYER = (
    *((f"self_attention/{one}", f"self_attn.{its}", rows) for one, its, rows in ATTENTION),
    ("attention_residual/layer_norm", "self_attn_layer_norm", NORM),
    *FEED_FORWARD,
)
DECODER_LAYER = (
    *((f"self_attention/{one}", f"self_attn.{its}", rows) for one, its, rows in ATTENTION),
    ("self_residual/layer_norm", "self_attn_layer_norm", NORM),
    *((f"source_attention/{one}", f"encoder_attn.{its}", rows) for one, its, rows in ATTENTION),
    ("source_residual/layer_norm", "encoder_attn_layer_norm", NORM),
    *FEED_FORWARD,
)

SHARED, SOURCE = "model.shared.weight", "model.encoder.embed_tokens.weight"
TARGET, OUTPUT = "model.decoder.embed_tokens.weight", "lm_head.weight"
# By model.tie_embeddings. With three matrices `shared` is a fourth that nothing reads, unless a
# checkpoint has it in place of the two embeddings.
EMBEDDINGS = {
    "all": (Row("target_embedding/table", "V D", SHARED, "V D", (SOURCE, TARGET, OUTPUT)),),
    "target": (
        Row("source_embedding/table", "Vs D", SOURCE, "Vs D"),
        Row("target_embedding/table", "V D", TARGET, "V D", (OUTPUT,)),
    ),
    "none": (
        Row("source_embedding/table", "Vs D", SOURCE, "Vs D"),
        Row("target_embedding/table", "V D", TARGET, "V D"),
        Row("output/kernel", "D V", OUTPUT, "V D"),
    ),
}
OUTPUT_BIAS = Row("logits_bias", "V", "final_logits_bias", "1 V")
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def table(tie_embeddings: str, *, encoder_layers: int, decoder_layers: int) -> Iterator[Row]:
    """The rows of a whole model, output bias included."""
    yield from EMBEDDINGS[tie_embeddings]
    yield OUTPUT_BIAS
    for side, layers, parts in (
        ("encoder", encoder_layers, ENCODER_LAYER),
        ("decoder", decoder_layers, DECODER_LAYER),
    ):
        for layer in range(layers):
            for ours, theirs, rows in parts:
                for leaf, axes, name, layout in rows:
                    theirs_full = f"model.{side}.layers.{layer}.{theirs}.{name}"
                    yield Row(f"{side}_{layer}/{ours}/{leaf}", axes, theirs_full, layout)


def tensor_shape(row: Row, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of the tensor, from the size of each axis."""
    return tuple(math.prod(sizes[axis] for axis in group) for group in _groups(row.layout))


def parameter_shape(row: Row, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of the parameter."""
    return tuple(sizes[axis] for axis in row.axes.split())


def to_parameter(
    row: Row, tensor: Float[np.ndarray, "..."], sizes: Mapping[str, int]
) -> Float[np.ndarray, "..."]:
    """Their tensor as our parameter, in float32."""
    order = _tensor_axes(row)
    split = np.asarray(tensor, np.float32).reshape([sizes[axis] for axis in order])
    return np.ascontiguousarray(split.transpose([order.index(axis) for axis in row.axes.split()]))


def to_tensor(
    row: Row,
    parameter: Float[np.ndarray, "..."],
    sizes: Mapping[str, int],
    channels: Int[np.ndarray, " D"],
) -> Float[np.ndarray, "..."]:
    """Our parameter as their tensor; their channel j of the model width is our `channels[j]`."""
    axes = row.axes.split()
    if "D" in axes:
        parameter = parameter.take(channels, axis=axes.index("D"))
    merged = parameter.transpose([axes.index(axis) for axis in _tensor_axes(row)])
    return np.ascontiguousarray(merged.reshape(tensor_shape(row, sizes)), np.float32)


def half_split_channels(d_model: int) -> Int[np.ndarray, " D"]:
    """Where the channels of half-split sinusoids lie in interleaved ones: 0, 2, 4, ... 1, 3, 5, ...

    A post-norm Transformer does not care how the channels of its residual stream are numbered, as
    long as every matrix and vector that reads or writes it agrees: so renumbered, a model with the
    paper's positions (sine, cosine, sine, ...) is one with Marian's (all sines, then all cosines).
    """
    return np.concatenate([np.arange(0, d_model, 2), np.arange(1, d_model, 2)])


def nested(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """{"a/b": x} as {"a": {"b": x}}."""
    tree: dict[str, Any] = {}
    for path, value in parameters.items():
        *parents, leaf = path.split("/")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[leaf] = value
    return tree


def flat(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """{"a": {"b": x}} as {"a/b": x}."""
    leaves: dict[str, Any] = {}
    for name, value in tree.items():
        path = f"{above}{name}"
        leaves |= flat(value, f"{path}/") if isinstance(value, Mapping) else {path: value}
    return leaves


def _groups(layout: str) -> list[list[str]]:
    """ "(N H) D" as [["N", "H"], ["D"]]; the axis 1 as []."""
    groups: list[list[str]] = []
    inside = False
    for word in layout.replace("(", "( ").replace(")", " )").split():
        if word in "()":
            inside = word == "("
            groups += [[]] if inside else []
        elif inside:
            groups[-1].append(word)
        else:
            groups.append([] if word == "1" else [word])
    return groups


def _tensor_axes(row: Row) -> Sequence[str]:
    return [axis for group in _groups(row.layout) for axis in group]
