"""Trains a part of a model: some of its parameters, or low-rank adapters of its kernels.

Trained and frozen parameters are two trees, so that gradients, clipping and optimiser need no
memory for frozen ones:

    adaptation = make_adaptation(config, params)
    tree = adaptation.start(params, key)            the tree in the training state
    trained, frozen = adaptation.split(tree)        differentiate by `trained`, and update it
    tree = adaptation.join(trained, frozen)
    params = adaptation.merge(tree)                 the model's own tree, for the loss and the end

If all parameters are trained, each of these functions returns its argument unchanged.
"""

import dataclasses
import difflib
import math
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.traverse_util import flatten_dict, unflatten_dict
from jaxtyping import Array

from flaxformer_mt.model.initialization import Params
from flaxformer_mt.training.config import TrainingConfig

ParameterPath = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Adaptation:
    """Training of all parameters, or of some.

    Attributes:
      trained: paths of the trained parameters in the tree; None = all.
      merges: whether `merge` changes anything. If true, the evaluation parameters differ from the
        trained ones, and both are saved.
    """

    merges: ClassVar[bool] = False
    trained: frozenset[ParameterPath] | None = None

    def start(self, params: Params, key: Array) -> Params:
        """Returns the initial tree of the training state.

        If `params` are boxed with their logical axes, so is the result. `key` determines random
        initial values; it may be the key that initialised `params`.
        """
        del key
        return params

    def split(self, tree: Params) -> tuple[Params, Params]:
        """Returns (trained, frozen), each with the nesting of the tree."""
        if self.trained is None:
            return tree, {}
        leaves = _flat(tree)
        trained = {path: x for path, x in leaves.items() if path in self.trained}
        frozen = {path: x for path, x in leaves.items() if path not in self.trained}
        return unflatten_dict(trained), unflatten_dict(frozen)

    def join(self, trained: Params, frozen: Params) -> Params:
        """Returns the whole tree; the inverse of `split`."""
        return unflatten_dict({**_flat(trained), **_flat(frozen)}) if frozen else trained

    def merge(self, tree: Params) -> Params:
        """Returns equivalent parameters in the model's own tree."""
        return tree


TRAIN_ALL = Adaptation()


@dataclasses.dataclass(frozen=True)
class LowRankAdapters(Adaptation):
    """LoRA (Hu et al. 2021, section 4.1): W' = W + scale * A B; A and B are trained.

    The tree is {"base": params, "adapters": {..., "kernel": {"a": A, "b": B}}}. A is [inputs r]
    and B [r outputs] for a W of [inputs outputs]: [D r] and [r N H] for a query [D N H], [N H r]
    and [r D] for an output map [N H D]. (The paper writes W x and B A, this model x W and A B.)

    Attributes:
      targets: paths of the adapted kernels in `params`, in order.
      rank: r.
      scale: alpha / r.
    """

    merges: ClassVar[bool] = True
    targets: tuple[ParameterPath, ...] = ()
    rank: int = 1
    scale: float = 1.0

    def start(self, params: Params, key: Array) -> Params:
        """Returns a normal A and a zero B, so that training starts at the given model.

        A has variance 1 / inputs, so that x A has the size of x (section 4.1).
        """
        kernels = _flat(params)
        adapters = {}
        for number, path in enumerate(self.targets):
            box, kernel = kernels[path], _unboxed(kernels[path])
            inputs = num_inputs(path, kernel.ndim)
            shape = (*kernel.shape[:inputs], self.rank)
            deviation = matrix_shape(path, kernel.shape)[0] ** -0.5
            a = jax.random.normal(jax.random.fold_in(key, number), shape, kernel.dtype) * deviation
            b = jnp.zeros((self.rank, *kernel.shape[inputs:]), kernel.dtype)
            if box is not kernel:  # the dimension r has no name
                a = box.replace(value=a, names=(*box.names[:inputs], None))
                b = box.replace(value=b, names=(None, *box.names[inputs:]))
            adapters[path] = {"a": a, "b": b}
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
    `params_like` gives names and shapes of the model's parameters, boxed with their logical axes or
    not. Raises ValueError if a pattern matches nothing (the message names the nearest parameters),
    or if the rank is too large for a kernel.
    """
    shapes = {path: _unboxed(x).shape for path, x in _flat(params_like).items()}
    trained = match_paths(config.trainable, shapes, field="trainable", what="parameter")
    if not config.lora_rank:
        return Adaptation(trained if config.trainable else None)
    kernels = [path for path, shape in shapes.items() if num_inputs(path, len(shape))]
    found = match_paths(config.lora_target, kernels, field="lora_target", what="kernel")
    targets = tuple(sorted(found))
    for path in targets:
        inputs, outputs = matrix_shape(path, shapes[path])
        if config.lora_rank > min(inputs, outputs):
            raise ValueError(
                f"training.lora_rank is {config.lora_rank}, but {'/'.join(path)} is a matrix of "
                f"{inputs} x {outputs}, whose rank is at most {min(inputs, outputs)}; choose a "
                "smaller rank, or leave that kernel out of training.lora_target"
            )
    adapters = {("adapters", *path, name) for path in targets for name in "ab"}
    return LowRankAdapters(
        trained=frozenset(adapters | {("base", *path) for path in trained}),
        targets=targets,
        rank=config.lora_rank,
        scale=(config.lora_alpha or config.lora_rank) / config.lora_rank,
    )


def path_of(keys: Sequence[jax.tree_util.KeyEntry]) -> ParameterPath:
    """Returns a path of `jax.tree_util` as names, such as ("decoder_0", "out", "kernel")."""
    return tuple(jax.tree_util.keystr((key,), simple=True) for key in keys)


def num_inputs(path: Sequence[str], num_dims: int) -> int:
    """Returns how many leading dimensions of a kernel are inputs; the others are outputs.

    1: query, key and value [D N H], feed-forward [D F] and [F D], output [D V].
    2: the map from the heads to the model width [N H D].
    Adapters: a [inputs r] has all dimensions but the last, b [r outputs] has 1.
    0: parameters that are no kernels (biases, scales, embeddings and other tables).
    """
    match tuple(path):
        case (*_, "kernel", "a") | (*_, "out", "kernel"):
            return num_dims - 1
        case (*_, "kernel") | (*_, "kernel", "b"):
            return 1
    return 0


def matrix_shape(path: Sequence[str], shape: Sequence[int]) -> tuple[int, int]:
    """Returns (inputs, outputs) of a kernel as a matrix."""
    inputs = num_inputs(path, len(shape))
    return math.prod(shape[:inputs]), math.prod(shape[inputs:])


def match_paths(
    patterns: Iterable[str], paths: Collection[ParameterPath], *, field: str, what: str
) -> frozenset[ParameterPath]:
    """Returns the paths that a regular expression matches as a whole, joined by slashes.

    Raises ValueError if a pattern matches no path. The message names the nearest paths, the config
    field of the patterns, and `what` the paths name, such as "kernel".
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


def _flat(tree: Params) -> dict[ParameterPath, Any]:
    """Returns path -> leaf; a box is a leaf."""
    return dict(flatten_dict(tree))


def _unboxed(x: Any) -> Any:
    return x.value if isinstance(x, nn.LogicallyPartitioned) else x
