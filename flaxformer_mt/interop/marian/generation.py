"""Conversion of a Hugging Face generation_config.json to a search config of ours, and back.

Our search then returns the same tokens as `generate` of transformers 5.x. Where it cannot, the
import warns.
"""

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.interop.marian.config import Json, with_defaults, wrong_types
from flaxformer_mt.search.config import EarlyStopping
from flaxformer_mt.translation.config import DecodingConfig

DEFAULTS = {
    "num_beams": 1,
    "num_return_sequences": 1,
    "length_penalty": 1.0,
    "early_stopping": False,
    "bad_words_ids": [],
    "suppress_tokens": [],
    "renormalize_logits": False,
    "min_length": 0,
    "no_repeat_ngram_size": 0,
    "repetition_penalty": 1.0,
}
OPTIONAL = {"max_length": 1, "max_new_tokens": 1, "min_new_tokens": 0}  # name: example
DEFAULT_NEW_TOKENS = 20
EARLY_STOPPING: Mapping[bool | str, EarlyStopping] = {
    False: "heuristic",
    True: "first",
    "never": "exact",
}
# Fields that change the translations and that we do not import: values that have no effect.
NOT_IMPORTED: Mapping[str, tuple[Any, ...]] = {
    "do_sample": (False,),
    "num_beam_groups": (1,),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1.0,),
    "exponential_decay_length_penalty": (),
    "sequence_bias": (),
    "begin_suppress_tokens": ([],),
    "forced_bos_token_id": (),
    "guidance_scale": (1.0,),
    "stop_strings": (),
}


def to_decoding_config(values: Json, target: Vocabulary, *, max_positions: int) -> DecodingConfig:
    """Returns the search that a generation config describes.

    Args:
      values: generation_config.json, or config.json if there is no such file.
      target: the vocabulary that ids refer to.
      max_positions: max_position_embeddings of config.json.

    Warns of fields that are not imported. Raises ValueError, with every reason, for invalid values.
    """
    values = with_defaults(values, DEFAULTS)
    if reasons := list(_invalid(values)):
        raise ValueError("; ".join(reasons))
    for difference in _differences(values, target):
        _warn(f"{difference}: translations may differ")
    limit = _length_limit(values, max_positions)
    suppressed = _suppressed(values, target)
    special = {target.pad_id, target.bos_id}
    by_name = {target.unk_id} | (special if special <= suppressed else set())
    return DecodingConfig(
        beam_size=values["num_beams"],
        num_hypotheses=min(values["num_return_sequences"], values["num_beams"]),
        length_penalty=max(0.0, float(values["length_penalty"])),
        length_normalization="average",
        early_stopping=EARLY_STOPPING[values["early_stopping"]],
        forced_end="free",
        max_target_length=limit,
        target_length_ratio=0.0,
        target_length_margin=limit,
        min_target_length=min(limit, _min_length(values)),
        no_repeat_ngram_size=values["no_repeat_ngram_size"],
        repetition_penalty=float(values["repetition_penalty"]),
        allow_unknown=target.unk_id not in suppressed,
        allow_special=not special <= suppressed,
        forbidden=tuple(sorted(suppressed - by_name)),
        renormalize=values["renormalize_logits"],
    )


def to_generation_json(decoding: DecodingConfig, target: Vocabulary) -> dict[str, Any]:
    """Returns the content of generation_config.json that is nearest to our search.

    `generate` always normalises by length as length_normalization="average".
    """
    suppressed = set(decoding.forbidden)
    suppressed |= set() if decoding.allow_special else {target.pad_id, target.bos_id}
    suppressed |= set() if decoding.allow_unknown else {target.unk_id}
    stopping = next(key for key, one in EARLY_STOPPING.items() if one == decoding.early_stopping)
    of_beams = {"length_penalty": decoding.length_penalty, "early_stopping": stopping}
    rules = {
        "min_length": decoding.min_target_length,
        "no_repeat_ngram_size": decoding.no_repeat_ngram_size,
        "repetition_penalty": decoding.repetition_penalty,
    }
    return {
        "num_beams": decoding.beam_size,
        "num_return_sequences": decoding.num_hypotheses,
        "max_length": decoding.max_target_length + 1,  # counts the start token
        **(of_beams if decoding.beam_size > 1 else {}),  # transformers warns of them otherwise
        **{name: value for name, value in rules.items() if value != DEFAULTS[name]},
        "bad_words_ids": [[token] for token in sorted(suppressed)] or None,
        "renormalize_logits": decoding.renormalize,
        "decoder_start_token_id": target.bos_id,
        "pad_token_id": target.pad_id,
        "eos_token_id": target.eos_id,
        "forced_eos_token_id": target.eos_id,
    }


def _invalid(values: Json) -> Iterator[str]:
    optional = {name: one for name, one in OPTIONAL.items() if values.get(name) is not None}
    # early_stopping has two types: it is checked below.
    yield from wrong_types({**values, "early_stopping": False}, DEFAULTS | optional)
    if values["early_stopping"] not in list(EARLY_STOPPING):
        yield f"early_stopping is {values['early_stopping']!r}, expected false, true or 'never'"
    words = values["bad_words_ids"]
    if not (isinstance(words, list) and all(map(_are_ids, words))):
        yield f"bad_words_ids is {words}, expected a list of lists of token ids"
    if not _are_ids(values["suppress_tokens"]):
        yield f"suppress_tokens is {values['suppress_tokens']}, expected a list of token ids"


def _differences(values: Json, target: Vocabulary) -> Iterator[str]:
    """Yields what `generate` does by these values and our search does not."""
    for name, no_effect in NOT_IMPORTED.items():
        if values.get(name) is not None and values[name] not in no_effect:
            yield f"sets {name} to {values[name]!r}, which is not imported"
    if values.get("forced_eos_token_id") is None:
        yield "has no forced_eos_token_id, but here every translation ends with EOS"
    for name in ("eos_token_id", "forced_eos_token_id"):
        if values.get(name) not in (None, target.eos_id, [target.eos_id]):
            yield (
                f"sets {name} to {values[name]!r}, but here only {target.eos_id} ends a translation"
            )
    if values["length_penalty"] < 0:
        yield f"sets length_penalty to {values['length_penalty']}, but the least here is 0"
    if any(len(word) > 1 for word in values["bad_words_ids"]):
        yield "forbids words of several tokens (bad_words_ids), which are not imported"
    if values["repetition_penalty"] != 1 and values["num_beams"] == 1:
        yield (
            "sets repetition_penalty with num_beams 1: generate applies it to logits then, our "
            "search to log-probabilities"
        )
    rules = ("min_length", "min_new_tokens", "no_repeat_ngram_size", "repetition_penalty")
    given = [name for name in rules if values.get(name) not in (None, DEFAULTS.get(name, 0))]
    if given and values["renormalize_logits"]:
        yield (
            f"sets renormalize_logits and {' and '.join(given)}: generate shares the probability "
            "of tokens that these rules exclude, our search does not"
        )


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(token) is int for token in value)


def _length_limit(values: Json, max_positions: int) -> int:
    """Returns the most tokens that `generate` adds; its max_length counts the start token too."""
    if values.get("max_new_tokens") is not None:
        return values["max_new_tokens"]
    if values.get("max_length") is not None:
        return max(1, values["max_length"] - 1)
    limit = max(1, min(DEFAULT_NEW_TOKENS, max_positions - 1))
    _warn(
        f"gives no max_length: as with generate, no translation has more than {limit} tokens then; "
        "raise decoding.max_target_length and decoding.target_length_margin in config.json for more"
    )
    return limit


def _min_length(values: Json) -> int:
    """Returns the fewest tokens, EOS included.

    `generate` forbids EOS while there are fewer than min_length tokens, start token included, or
    fewer than min_new_tokens without it. min_new_tokens replaces min_length.
    """
    new = values.get("min_new_tokens")
    return values["min_length"] if new is None else new + 1


def _suppressed(values: Json, target: Vocabulary) -> set[int]:
    """Returns the single tokens of the vocabulary, without EOS, that are never generated."""
    single = {word[0] for word in values["bad_words_ids"] if len(word) == 1}
    return (single | set(values["suppress_tokens"])) & set(range(target.size)) - {target.eos_id}


def _warn(what: str) -> None:
    warnings.warn(f"the generation config {what}", stacklevel=3)
