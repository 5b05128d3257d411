"""Conversion between our parameters and the tensors of another tool, defined by a table.

A row has the name and axes of a parameter, and the name and layout of a tensor, as in einops:

    Row("query/kernel", "D N H", "q_proj.weight", "(N H) D")

The transpose of q_proj.weight [N * H, D], split into heads, is our query kernel [D N H]. A "1" in a
layout is an axis of length 1 that only the tensor has.
"""

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from flaxformer_mt.model.config import TransformerConfig


class Row(NamedTuple):
    """A parameter and the corresponding tensor."""

    ours: str
    """Path of the parameter in the parameter tree."""
    axes: str
    """Axes of the parameter."""
    theirs: str
    """Name of the tensor."""
    layout: str
    """Axes of the tensor; merged axes are in parentheses."""

    def parameter_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Returns the shape of the parameter, given the size of each axis letter."""
        return tuple(sizes[axis] for axis in self.axes.split())

    def tensor_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Returns the shape of the tensor, given the size of each axis letter."""
        groups = re.findall(r"\([^)]*\)|\S+", self.layout)
        sizes = {"1": 1, **sizes}
        return tuple(math.prod(sizes[axis] for axis in re.findall(r"\w+", g)) for g in groups)

    def to_parameter(
        self, tensor: Float[np.ndarray, "..."], sizes: Mapping[str, int]
    ) -> Float[np.ndarray, "..."]:
        """Returns the parameter that equals `tensor`, in float32."""
        order = self._tensor_axes()
        split = np.asarray(tensor, np.float32).reshape([sizes[axis] for axis in order])
        return np.ascontiguousarray(split.transpose([order.index(a) for a in self.axes.split()]))

    def to_tensor(
        self, parameter: Float[np.ndarray, "..."], sizes: Mapping[str, int]
    ) -> Float[np.ndarray, "..."]:
        """Returns the tensor that equals `parameter`, in float32.

        An axis that is shorter than its size in `sizes` is padded with zeros.
        """
        axes = self.axes.split()
        lengths = dict(zip(axes, parameter.shape, strict=True)) | {
            axis: size for axis, size in sizes.items() if axis in axes
        }
        padding = [(0, lengths[a] - n) for a, n in zip(axes, parameter.shape, strict=True)]
        padded = np.pad(np.asarray(parameter, np.float32), padding)
        ordered = padded.transpose([axes.index(axis) for axis in self._tensor_axes()])
        return np.ascontiguousarray(ordered.reshape(self.tensor_shape(lengths)))

    def _tensor_axes(self) -> list[str]:
        return re.findall(r"[A-Za-z]\w*", self.layout)


def linear(ours: str, theirs: str, inputs: str, outputs: str) -> tuple[Row, Row]:
    """Returns the rows of a linear map: our kernel is [inputs outputs], theirs [outputs inputs]."""
    return (
        Row(f"{ours}/kernel", f"{inputs} {outputs}", f"{theirs}.weight", f"({outputs}) ({inputs})"),
        Row(f"{ours}/bias", outputs, f"{theirs}.bias", f"({outputs})"),
    )


def norm(ours: str, theirs: str, scale: str = "weight", bias: str = "bias") -> tuple[Row, Row]:
    """Returns the rows of a normalisation layer."""
    return (
        Row(f"{ours}/scale", "D", f"{theirs}.{scale}", "D"),
        Row(f"{ours}/bias", "D", f"{theirs}.{bias}", "D"),
    )


def layer_rows(
    config: TransformerConfig, encoder: Iterable[Row], decoder: Iterable[Row], theirs: str
) -> Iterator[Row]:
    """Yields the rows of all layers, with the prefix `theirs`, such as "{side}.layers.{i}"."""
    stacks = (config.num_encoder_layers, encoder), (config.num_decoder_layers, decoder)
    for side, (count, rows) in zip(("encoder", "decoder"), stacks, strict=True):
        for i, row in itertools.product(range(count), rows):
            prefix = theirs.format(side=side, i=i)
            yield row._replace(ours=f"{side}_{i}/{row.ours}", theirs=f"{prefix}.{row.theirs}")
