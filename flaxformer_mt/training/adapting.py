"""Trains a part of a model: some of its parameters, or low-rank adapters of its kernels.

Trained and frozen parameters are two trees, so that gradients, clipping and optimiser need no
memory for frozen ones:

    adaptation = make_adaptation(config, params)
    tree = adaptation.start(params, key)            the tree in the training state
    trained, frozen = adaptation.split(tree)        differentiate by `trained`, and update it
    tree = adaptation.join(trained, frozen)
    params = adaptation.merge(tree)                 the model's own tree, for the loss and the end

If all parameters are trained, each of these functions returns its argument.
"""

import dataclasses
import difflib
import re
from collections.abc import Collection, Iterable
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.traverse_util import flatten_dict, unflatten_dict
from jaxtyping import Array

from flaxformer_mt.model.initialization import Params
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.training.linear_maps import ParameterPath, matrix_shape, num_inputs


@dataclasses.dataclass(frozen=True)
class Adaptation:
    """Training of all parameters; its subclasses train less.

    Attributes:
      merges: whether `merge` changes anything. If true, the evaluation parameters differ from the
        trained ones, and both are saved.
    """

    merges: ClassVar[bool] = False

    def start(self, params: Params, key: Array) -> Params:
        """Returns the tree in training before the first step.

        Args:
          params: of the model. If they are boxed with their logical axes, so is the result.
          key: of random initial values; may be the key of the parameters.
        """
        del key
        return params

    def split(self, tree: Params) -> tuple[Params, Params]:
        """Returns (trained, frozen); the optimiser gets only the first."""
        return tree, {}

    def join(self, trained: Params, frozen: Params) -> Params:
        """Returns the tree that `split` split."""
        del frozen
        return trained

    def merge(self, tree: Params) -> Params:
        """Returns equivalent parameters in the model's own tree."""
        return tree


TRAIN_ALL = Adaptation()


@dataclasses.dataclass(frozen=True)
class PartialTraining(Adaptation):
    """Training of some parameters.

    Attributes:
      trained: their paths in the tree.
    """

    trained: frozenset[ParameterPath]

    def split(self, tree: Params) -> tuple[Params, Params]:
        """Returns (trained, frozen), each with the nesting of the tree."""
        leaves = _flat(tree)
        trained = {path: x for path, x in leaves.items() if path in self.trained}
        frozen = {path: x for path, x in leaves.items() if path not in self.trained}
        return unflatten_dict(trained), unflatten_dict(frozen)

    def join(self, trained: Params, frozen: Params) -> Params:
        """Returns the tree that `split` split."""
        return unflatten_dict({**_flat(trained), **_flat(frozen)})


@dataclasses.dataclass(frozen=True)
class LowRankAdapters(PartialTraining):
    """LoRA (Hu et al. 2021, section 4.1): W' = W + scale * A B; A and B are trained.

    The tree is {"base": params, "adapters": {..., "kernel": {"a": A, "b": B}}}. A is [inputs r]
    and B [r outputs] for a W of [inputs outputs]: [D r] and [r N H] for a query [D N H], [N H r]
    and [r D] for an output map [N H D]. (The paper writes W x and B A, this model x W and A B.)

    Attributes:
      trained: paths in the tree, including those of the adapters.
      targets: paths of the adapted kernels in `params`, in order.
      rank: r.
      scale: alpha / r.
    """

    merges: ClassVar[bool] = True
    targets: tuple[ParameterPath, ...]
    rank: int
    scale: float

    def start(self, params: Params, key: Array) -> Params:
        """Returns a normal A and a zero B, so that training starts at the given model.

        A has variance 1 / inputs, so that x A has the size of x (section 4.1).
        """
        kernels = _flat(params)
        adapters = {}
        for number, path in enumerate(self.targets):
            kernel = _unboxed(kernels[path])
            inputs = num_inputs(path, kernel.ndim)
            shape_a = (*kernel.shape[:inputs], self.rank)
            shape_b = (self.rank, *kernel.shape[inputs:])
            deviation = matrix_shape(path, kernel.shape)[0] ** -0.5
            normal = jax.random.normal(jax.random.fold_in(key, number), shape_a, kernel.dtype)
            a, b = deviation * normal, jnp.zeros(shape_b, kernel.dtype)
            adapters[path] = _boxed_like(kernels[path], a, b, inputs)
        return {"base": params, "adapters": unflatten_dict(adapters)}

    def merge(self, tree: Params) -> Params:
        """Adds each adapter to its kernel; other parameters are those of the base."""
        leaves, adapters = _flat(tree["base"]), _flat(tree["adapters"])
        for path in self.targets:
            a, b = adapters[(*path, "a")], adapters[(*path, "b")]
            # By default accelerators round the factors of a product.
            product = jnp.tensordot(a, b, axes=1, precision="highest")
            leaves[path] = leaves[path] + self.scale * product
        return unflatten_dict(leaves)


def make_adaptation(config: TrainingConfig, params_like: Params) -> Adaptation:
    """Returns the adaptation that `trainable` and the LoRA fields of a config define.

    With adapters, `trainable` names parameters of the base that are trained in addition.

    Args:
      config: see its fields.
      params_like: names and shapes of the model's parameters (arrays or `jax.eval_shape`'s),
        boxed with their logical axes or not.

    Raises:
      ValueError: a pattern matches nothing (the message names the nearest parameters), or the
        rank is too large for a kernel.
    """
    shapes = {path: _unboxed(x).shape for path, x in _flat(params_like).items()}
    trained = match_paths(config.trainable, shapes, field="trainable", what="parameter")
    if not config.lora_rank:
        return PartialTraining(trained) if config.trainable else Adaptation()
    kernels = [path for path, shape in shapes.items() if num_inputs(path, len(shape))]
    found = match_paths(config.lora_target, kernels, field="lora_target", what="kernel")
    targets = tuple(sorted(found))
    for path in targets:
        _check_rank(config.lora_rank, path, shapes[path])
    adapters = {("adapters", *path, name) for path in targets for name in "ab"}
    return LowRankAdapters(
        trained=frozenset(adapters | {("base", *path) for path in trained}),
        targets=targets,
        rank=config.lora_rank,
        scale=(config.lora_alpha or config.lora_rank) / config.lora_rank,
    )


def match_paths(
    patterns: Iterable[str], paths: Collection[ParameterPath], *, field: str, what: str
) -> frozenset[ParameterPath]:
    """Returns the paths whose whole text, joined by slashes, matches a pattern.

    Args:
      patterns: regular expressions.
      paths: the candidates.
      field: config field of the patterns, for the message.
      what: noun for a candidate, for the message.

    Raises:
      ValueError: a pattern matches none; the message names the nearest.
    """
    names = {"/".join(path): path for path in paths}
    matched: set[ParameterPath] = set()
    for pattern in patterns:
        found = [path for name, path in names.items() if re.fullmatch(pattern, name)]
        if not found:
            nearest = difflib.get_close_matches(pattern, names, n=3, cutoff=0.0)
            raise ValueError(
                f"training.{field}: {pattern!r} matches no {what}; a pattern is a regular "
                "expression that must match the whole path (.* matches anything). The "
                f"nearest are:\n  " + "\n  ".join(nearest)
            )
        matched.update(found)
    return frozenset(matched)


def _check_rank(rank: int, path: ParameterPath, shape: tuple[int, ...]) -> None:
    inputs, outputs = matrix_shape(path, shape)
    if rank > min(inputs, outputs):
        raise ValueError(
            f"training.lora_rank is {rank}, but {'/'.join(path)} is a matrix of {inputs} x "
            f"{outputs}, whose rank is at most {min(inputs, outputs)}; choose a smaller rank, or "
            "leave that kernel out of training.lora_target"
        )


def _flat(tree: Params) -> dict[ParameterPath, Any]:
    """Returns path -> leaf; a box is a leaf."""
    return dict(flatten_dict(tree))


def _unboxed(x: Any) -> Any:
    return x.value if isinstance(x, nn.LogicallyPartitioned) else x


def _boxed_like(kernel: Any, a: Array, b: Array, inputs: int) -> dict[str, Any]:
    """Returns the adapter of a kernel, boxed if the kernel is; the dimension r has no name."""
    if not isinstance(kernel, nn.LogicallyPartitioned):
        return {"a": a, "b": b}
    names = kernel.names
    return {
        "a": kernel.replace(value=a, names=(*names[:inputs], None)),
        "b": kernel.replace(value=b, names=(None, *names[inputs:])),
    }
