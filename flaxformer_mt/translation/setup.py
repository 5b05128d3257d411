"""What all stages of a translator's call share: its models, and the settings of the call."""

import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool

from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.inference.devices import mesh_of
from flaxformer_mt.kernels.choose import choose_search_sizes
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.translation.config import DecodingConfig
from flaxformer_mt.translation.word_ends import TargetWords


class Ensemble:
    """The models of a translator, their parameters and the devices that hold them."""

    def __init__(
        self,
        models: Sequence[Transformer],
        params: Sequence[Mapping[str, Any]],
        max_source_length: int,
        weights: Sequence[float] | None = None,
    ) -> None:
        """Takes one or more models. `weights` have sum 1; None for a single model."""
        self.models, self.params = tuple(models), tuple(params)
        self.max_source_length = max_source_length
        self.weights = None if weights is None else tuple(weights)
        self.mesh = mesh_of(self.params)
        self.num_devices = self.mesh.size if self.mesh else 1
        self.search_sizes = choose_search_sizes(jax.default_backend())

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of all parameters, in 32 hexadecimal digits."""
        digest = hashlib.blake2b(
            repr(([model.config for model in self.models], self.weights)).encode(), digest_size=16
        )
        for path, x in jax.tree_util.tree_leaves_with_path(self.params):
            digest.update(f"{jax.tree_util.keystr(path)} {x.dtype} {x.shape}".encode())
            digest.update(np.asarray(x).tobytes())
        return digest.hexdigest()


@dataclasses.dataclass(frozen=True, eq=False)
class Setup:
    """The settings of one call, and the models, tokenizer and target words that it uses."""

    config: DecodingConfig
    ensemble: Ensemble
    tokenizer: Tokenizer
    words: TargetWords
    """Those of the target language."""
    suppressed: Bool[np.ndarray, " V"]
    """True for tokens that no translation may contain."""


def suppressed_tokens(tokenizer: Tokenizer, config: DecodingConfig) -> Bool[np.ndarray, " V"]:
    """Returns True for tokens that no translation may contain.

    These are padding, BOS and the unknown word (unless the config allows them), tags of languages,
    and `config.forbidden`.

    Raises ValueError for a forbidden token that is EOS or not in the vocabulary, and if the beam is
    wider than the number of allowed tokens.
    """
    target = tokenizer.target
    for token in config.forbidden:
        is_id = isinstance(token, int | np.integer) and 0 <= token < target.size
        if not is_id or token == target.eos_id:
            raise ValueError(
                f"decoding.forbidden must hold ids of target tokens (0..{target.size - 1}) other "
                f"than EOS ({target.eos_id}), but it holds {token!r}"
            )
    suppressed = np.zeros(target.size, bool)
    suppressed[[target.pad_id, target.bos_id]] = not config.allow_special
    suppressed[target.unk_id] = not config.allow_unknown
    if tokenizer.needs_tag:  # Marian's own search does not suppress its tags
        suppressed[list(tokenizer.target_tags)] = not config.allow_special
    suppressed[list(config.forbidden)] = True
    suppressed[target.eos_id] = False  # EOS can be the padding or BOS token too
    num_allowed = int(np.count_nonzero(~suppressed))
    if config.beam_size > num_allowed and not config.is_sampling:
        raise ValueError(
            f"beam_size is {config.beam_size}, but the target vocabulary has only {num_allowed} "
            f"tokens to choose from: the beam must not be wider than that"
        )
    return suppressed
