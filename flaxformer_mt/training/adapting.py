"""Training a part of a model: some of its parameters, or low-rank adapters of its kernels.

What is trained and what stays as it is are two trees, so that gradients, clipping and optimiser
know nothing of the parameters that stay, and cost no memory for them:

    adaptation = make_adaptation(config, params)
    tree = adaptation.start(params, key)            what the training state holds
    trained, frozen = adaptation.divide(tree)       differentiate by `trained`, and update it
    tree = adaptation.join(trained, frozen)
    params = adaptation.merge(tree)                 an ordinary model: for the loss, and to keep

Where all is trained, each of these gives back what it is given.
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

from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.training.kernels import (
    ParameterPath,
    Params,
    matrix_shape,
    num_inputs,
)


@dataclasses.dataclass(frozen=True)
class Adaptation:
    """Training of all parameters; its subclasses train less.

    Attributes:
      merges: whether `merge` changes anything: the merged parameters, which translate, are then
        others than those of the tree, and both are worth keeping.
    """

    merges: ClassVar[bool] = False

    def start(self, params: Params, key: Array) -> Params:
        """The tree that is trained, before the first step.

        Args:
          params: of the model, each boxed with its logical axes or none: so is then the tree.
          key: of what is drawn here; may be that of the parameters.
        """
        del key
        return params

    def divide(self, tree: Params) -> tuple[Params, Params]:
        """(trained, frozen): what the optimiser sees, and what stays as it is."""
        return tree, {}

    def join(self, trained: Params, frozen: Params) -> Params:
        """The tree of which `divide` made the two."""
        del frozen
        return trained

    def merge(self, tree: Params) -> Params:
        """The parameters of an ordinary model that computes what the tree stands for."""
        return tree


TRAIN_ALL = Adaptation()


@dataclasses.dataclass(frozen=True)
class PartialTraining(Adaptation):
    """Training of some of the parameters.

    Attributes:
      trained: their paths in the tree.
    """

    trained: frozenset[ParameterPath]

    def divide(self, tree: Params) -> tuple[Params, Params]:
        """(trained, frozen), each nested as the tree is."""
        leaves = _flat(tree)
        trained = {path: x for path, x in leaves.items() if path in self.trained}
        frozen = {path: x for path, x in leaves.items() if path not in self.trained}
        return unflatten_dict(trained), unflatten_dict(frozen)

    def join(self, trained: Params, frozen: Params) -> Params:
        """The tree of which `divide` made the two."""
        return unflatten_dict({**_flat(trained), **_flat(frozen)})


@dataclasses.dataclass(frozen=True)
class LowRankAdapters(PartialTraining):
    """LoRA (Hu et al. 2021, section 4.1): W' = W + scale * A B, of which A and B are trained.

    The tree is {"base": params, "adapters": {..., "kernel": {"a": A, "b": B}}}. A is [inputs r]
    and B [r outputs], with inputs and outputs as W has them: for a query of [D N H] they are [D r]
    and [r N H], for the map back of [N H D] [N H r] and [r D]. (The paper writes W x where this
    model writes x W, and so B A.)

    Attributes:
      trained: paths of the tree, those of the adapters among them.
      targets: paths of the kernels in `params`, in order.
      rank: r.
      scale: alpha / r.
    """

    merges: ClassVar[bool] = True
    targets: tuple[ParameterPath, ...]
    rank: int
    scale: float

    def start(self, params: Params, key: Array) -> Params:
        """A normal, B zero, so that training starts at the model that is given (section 4.1).

        A has variance 1 / inputs, so that x A is as large as x.
        """
        kernels = _flat(params)
        adapters = {}
        for number, path in enumerate(self.targets):
            kernel = _unboxed(kernels[path])
            inputs = num_inputs(path, kernel.ndim)
            shape_a = (*kernel.shape[:inputs], self.rank)
            shape_b = (self.rank, *kernel.shape[inputs:])
            deviation = matrix_shape(path, kernel.shape)[0] ** -0.5
            draw = jax.random.normal(jax.random.fold_in(key, number), shape_a, kernel.dtype)
            a, b = deviation * draw, jnp.zeros(shape_b, kernel.dtype)
            adapters[path] = _boxed_like(kernels[path], a, b, inputs)
        return {"base": params, "adapters": unflatten_dict(adapters)}

    def merge(self, tree: Params) -> Params:
        """Each kernel with its adapter added; the other parameters are those of the base."""
        leaves, adapters = _flat(tree["base"]), _flat(tree["adapters"])
        for path in self.targets:
            a, b = adapters[(*path, "a")], adapters[(*path, "b")]
            # Accelerators round the factors of a product unless they are told not to.
            product = jnp.tensordot(a, b, axes=1, precision="highest")
            leaves[path] = leaves[path] + self.scale * product
        return unflatten_dict(leaves)


def make_adaptation(config: TrainingConfig, params_like: Params) -> Adaptation:
    """What `trainable` and the LoRA fields of the config say, for these parameters.

    With adapters, `trainable` names parameters of the base that are trained beside them.

    Args:
      config: see its fields.
      params_like: names and shapes of the model's parameters (arrays or `jax.eval_shape`'s),
        boxed with their logical axes or not.

    Raises:
      ValueError: a pattern that matches nothing (names the nearest parameters), or a rank that is
        too large for a kernel.
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
    """The paths that one of the patterns matches as a whole, written with slashes.

    Args:
      patterns: regular expressions.
      paths: to choose from.
      field: of the `training` section that holds the patterns, for the message.
      what: what the paths are of, for the message.

    Raises:
      ValueError: a pattern matches none: names the nearest.
    """
    names = {"/".join(path): path for path in paths}
    matched: set[ParameterPath] = set()
    for pattern in patterns:
        found = [path for name, path in names.items() if re.fullmatch(pattern, name)]
        if not found:
            nearest = difflib.get_close_matches(pattern, names, n=3, cutoff=0.0)
            raise ValueError(
                f"training.{field}: {pattern!r} matches no {what}; a pattern is a regular "
                "expression that has to match the whole path (.* stands for anything). The "
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
    """Path to leaf; a box is a leaf."""
    return dict(flatten_dict(tree))


def _unboxed(x: Any) -> Any:
    return x.value if isinstance(x, nn.LogicallyPartitioned) else x


def _boxed_like(kernel: Any, a: Array, b: Array, inputs: int) -> dict[str, Any]:
    """The adapter of a kernel, in boxes if that has one; the dimension r has no name."""
    if not isinstance(kernel, nn.LogicallyPartitioned):
        return {"a": a, "b": b}
    names = kernel.names
    return {
        "a": kernel.replace(value=a, names=(*names[:inputs], None)),
        "b": kernel.replace(value=b, names=(None, *names[inputs:])),
    }
