"""The training state: everything that an update changes, as one pytree; and the run's progress."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from flaxformer_mt.checkpoints.reading import quality
from flaxformer_mt.config import differences
from flaxformer_mt.model.initialization import Params, boxed_params, init_params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.sharding import state_shardings
from flaxformer_mt.training.adapting import TRAIN_ALL, Adaptation
from flaxformer_mt.training.config import TrainingConfig

Leaf = Any  # an array; in trees that mirror a state, its shape or its sharding


@flax.struct.dataclass
class TrainState:
    """Parameters, optimiser state and random key after `step` updates.

    Attributes:
      step: int32 scalar; updates done, including skipped ones.
      params: nested dict of float32 arrays: the model's parameters, or the tree that
        `training.adapting` makes of them.
      opt_state: state of the Optax optimiser.
      key: raw random key. The dropout of step n uses fold_in(key, n), so that it depends on the
        seed and n only, and a resumed run gives the same masks as an uninterrupted one.
      ema: exponential moving average of the trained `params`; None without one.
    """

    step: Leaf
    params: Params
    opt_state: optax.OptState
    key: Leaf
    ema: Params | None = None


class Progress(NamedTuple):
    """The part of a run's progress that is not in its `TrainState`; JSON in each checkpoint.

    Attributes:
      data: state of the data iterator.
      best: highest `quality` of a validation so far; None before the first.
      waited: number of validations since the best one.
      fingerprints: of the training data (see data.fingerprints); a resume compares them.
      validation_due: whether a stop prevented the validation of this step. The resumed run starts
        with it.
    """

    data: dict[str, int]
    best: float | None = None
    waited: int = 0
    fingerprints: dict[str, str] = {}
    validation_due: bool = False

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Progress":
        """Returns the progress in a checkpoint; raises ValueError for one of a later version."""
        values = dict(values)
        best_bleu = values.pop("best_bleu", 0.0)  # of an earlier version
        if best_bleu > 0:
            values["best"] = best_bleu
        if unknown := sorted(set(values) - set(cls._fields)):
            raise ValueError(
                f"the checkpoint has the keys {', '.join(unknown)}, which this version does not "
                "know: resume it with the version that wrote it"
            )
        return cls(**values)

    def after_validation(self, scores: Mapping[str, float]) -> "Progress":
        """Returns the progress after a validation: BLEU decides, or the loss while BLEU is 0."""
        found = quality(scores)
        better = found > (-math.inf if self.best is None else self.best)
        return self._replace(
            best=found if better else self.best,
            waited=0 if better else self.waited + 1,
            validation_due=False,
        )


def init_state(
    model: Transformer,
    optimizer: optax.GradientTransformation,
    seed: int,
    params: Params | None = None,
    *,
    adaptation: Adaptation = TRAIN_ALL,
    with_ema: bool = False,
) -> TrainState:
    """Returns the state before the first step, which depends on `seed` and `params` only.

    Without `params`, it initialises parameters. `seed` also determines dropout.
    """
    params_key, dropout_key = jax.random.split(jax.random.key(seed))
    start = init_params(model, params_key) if params is None else params
    tree = adaptation.start(start, params_key)
    trained, _ = adaptation.split(tree)
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=tree,
        opt_state=optimizer.init(trained),
        key=jax.random.key_data(dropout_key),
        ema=jax.tree.map(jnp.copy, trained) if with_ema else None,
    )


def has_separate_eval_params(state: TrainState, adaptation: Adaptation) -> bool:
    """Returns whether `eval_params` differ from the parameters in training."""
    return state.ema is not None or adaptation.merges


def eval_params(state: TrainState, adaptation: Adaptation) -> Params:
    """Returns the parameters for validation and translation, in the model's own tree.

    They are the moving average, if the state has one, with merged adapters.
    """
    if state.ema is None:
        return adaptation.merge(state.params)
    _, frozen = adaptation.split(state.params)
    return adaptation.merge(adaptation.join(state.ema, frozen))


def abstract_state(
    make: Callable[[], TrainState], model: Transformer, adaptation: Adaptation, mesh: Mesh
) -> TrainState:
    """Returns shape, type and sharding of each array of the state that `make` returns."""
    key = jax.random.key(0)
    boxed = jax.eval_shape(lambda: adaptation.start(boxed_params(model, key), key))
    shapes = jax.eval_shape(make)
    return jax.tree.map(
        lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
        shapes,
        state_shardings(shapes, boxed, mesh),
    )


def check_same_state(saved: TrainingConfig, config: TrainingConfig) -> None:
    """Raises ValueError if settings changed that determine the arrays of the training state."""
    lines = []
    for line in differences(saved, config, where="training"):
        name = line.split(":")[0].removeprefix("training.")
        if name in ("ema_decay", "weight_decay"):  # other values above 0 have the same arrays
            if bool(getattr(saved, name)) != bool(getattr(config, name)):
                lines.append(line)
        elif name in ("optimizer", "trainable", "lora_rank", "lora_alpha", "lora_target"):
            lines.append(line)
    if lines:
        raise ValueError(
            "the checkpoints of this run have another training state (saved -> given):\n  "
            + "\n  ".join(lines)
            + "\nRestore the saved values, or start from the parameters of this run in a new "
            "--workdir, with --training.init-from."
        )
