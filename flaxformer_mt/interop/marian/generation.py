"""Converts a Hugging Face generation_config.json to our search config, and back.

With an imported config, our search returns the same tokens as `generate` of transformers 5.x. If it
cannot, the import warns.
"""

import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.interop.marian.config import Json, parse
from flaxformer_mt.search.config import EarlyStopping
from flaxformer_mt.translation.config import DecodingConfig

DEFAULT_NEW_TOKENS = 20
EARLY_STOPPING: Mapping[bool | str, EarlyStopping]
EARLY_STOPPING = {False: "heuristic", True: "first", "never": "exact"}
# Fields that we do not import although they change translations: {field: values without effect}.
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
_NOT_GIVEN = -1


@dataclasses.dataclass(frozen=True)
class Generation:
    """The fields of generation_config.json that we import, with the defaults of `generate`."""

    num_beams: int = 1
    num_return_sequences: int = 1
    length_penalty: float = 1.0
    early_stopping: Literal[False, True, "never"] = False
    bad_words_ids: tuple[tuple[int, ...], ...] = ()
    suppress_tokens: tuple[int, ...] = ()
    renormalize_logits: bool = False
    min_length: int = 0
    no_repeat_ngram_size: int = 0
    repetition_penalty: float = 1.0
    max_length: int = _NOT_GIVEN
    """Most tokens of a target, including the start token."""
    max_new_tokens: int = _NOT_GIVEN
    """Most tokens of a target, without the start token; overrides max_length."""
    min_new_tokens: int = _NOT_GIVEN
    """Fewest tokens before EOS, without the start token; overrides min_length, which counts it."""


def to_decoding_config(values: Json, target: Vocabulary, *, max_positions: int) -> DecodingConfig:
    """Returns the search config for a generation config.

    Args:
      values: generation_config.json, or config.json if there is no such file.
      target: the vocabulary that ids refer to.
      max_positions: max_position_embeddings of config.json.

    Warns of fields that are not imported. Raises ValueError for an invalid value.
    """
    given = parse(Generation, values)
    for difference in _differences(given, values, target):
        _warn(f"{difference}: translations may differ")
    limit = _length_limit(given, max_positions)
    least = given.min_length if given.min_new_tokens < 0 else given.min_new_tokens + 1  # with EOS
    suppressed = _suppressed(given, target)
    special = {target.pad_id, target.bos_id}
    by_name = {target.unk_id} | (special if special <= suppressed else set())
    return DecodingConfig(
        beam_size=given.num_beams,
        num_hypotheses=min(given.num_return_sequences, given.num_beams),
        length_penalty=max(0.0, given.length_penalty),
        length_normalization="average",
        early_stopping=EARLY_STOPPING[given.early_stopping],
        forced_end="free",
        max_target_length=limit,
        target_length_ratio=0.0,
        target_length_margin=limit,
        min_target_length=min(limit, least),
        no_repeat_ngram_size=given.no_repeat_ngram_size,
        repetition_penalty=given.repetition_penalty,
        allow_unknown=target.unk_id not in suppressed,
        allow_special=not special <= suppressed,
        forbidden=tuple(sorted(suppressed - by_name)),
        renormalize=given.renormalize_logits,
    )


def to_generation_json(
    decoding: DecodingConfig, target: Vocabulary, tags: Sequence[int] = ()
) -> dict[str, Any]:
    """Returns the content of the generation_config.json that is closest to our search.

    `generate` always uses length_normalization="average". Another strategy than beam search, a
    coverage penalty and a minimum length ratio have no equivalent: they are left out, with a
    warning. `tags` are the language tags that our search suppresses.
    """
    if decoding.strategy != "beam":
        _warn(f"has decoding.strategy {decoding.strategy}: `generate` uses beam search instead")
    for name in ("coverage_penalty", "min_target_ratio"):
        if value := getattr(decoding, name):
            _warn(f"has decoding.{name} {value}, which `generate` does not support")
    beam_size = max(1, decoding.beam_size)
    if beam_size == 1 and decoding.repetition_penalty != 1:
        _warn(
            "has decoding.repetition_penalty with greedy search: `generate` applies it to logits, "
            "this search to log-probabilities"
        )
    excluding = decoding.min_target_length, decoding.no_repeat_ngram_size
    if decoding.renormalize and (any(excluding) or decoding.repetition_penalty != 1):
        _warn(
            "has decoding.renormalize and rules that change probabilities: `generate` normalises "
            "after these rules, this search before them"
        )
    suppressed = set(decoding.forbidden)
    suppressed |= set() if decoding.allow_special else {target.pad_id, target.bos_id, *tags}
    suppressed |= set() if decoding.allow_unknown else {target.unk_id}
    stopping = next(key for key, one in EARLY_STOPPING.items() if one == decoding.early_stopping)
    of_beams = {"length_penalty": decoding.length_penalty, "early_stopping": stopping}
    rules = {
        "min_length": decoding.min_target_length,
        "no_repeat_ngram_size": decoding.no_repeat_ngram_size,
        "repetition_penalty": decoding.repetition_penalty,
    }
    return {
        "num_beams": beam_size,
        "num_return_sequences": min(decoding.num_hypotheses, beam_size),
        "max_length": decoding.max_target_length + 1,  # counts the start token
        **(of_beams if beam_size > 1 else {}),  # transformers warns of them otherwise
        **{name: x for name, x in rules.items() if x != getattr(Generation, name)},
        "bad_words_ids": [[token] for token in sorted(suppressed)] or None,
        "renormalize_logits": decoding.renormalize,
        "decoder_start_token_id": target.bos_id,
        "pad_token_id": target.pad_id,
        "eos_token_id": target.eos_id,
        "forced_eos_token_id": target.eos_id,
    }


def _differences(given: Generation, values: Json, target: Vocabulary) -> Iterator[str]:
    """Yields the differences between `generate` with these values and our search."""
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
    rules = ("min_length", "min_new_tokens", "no_repeat_ngram_size", "repetition_penalty")
    active = [name for name in rules if getattr(given, name) not in (0, _NOT_GIVEN, 1.0)]
    others = {
        f"sets length_penalty to {given.length_penalty}, but the least here is 0": (
            given.length_penalty < 0
        ),
        "forbids words of several tokens (bad_words_ids), which are not imported": (
            any(len(word) > 1 for word in given.bad_words_ids)
        ),
        "sets repetition_penalty with num_beams 1: generate applies it to logits then, our search "
        "to log-probabilities": given.repetition_penalty != 1 and given.num_beams == 1,
        f"sets renormalize_logits and {' and '.join(active)}: generate renormalises after these "
        "rules, our search before them": given.renormalize_logits and bool(active),
    }
    yield from (difference for difference, found in others.items() if found)


def _length_limit(given: Generation, max_positions: int) -> int:
    """Returns the largest number of tokens that `generate` adds."""
    if given.max_new_tokens >= 0:
        return given.max_new_tokens
    if given.max_length >= 0:
        return max(1, given.max_length - 1)
    limit = max(1, min(DEFAULT_NEW_TOKENS, max_positions - 1))
    _warn(
        f"gives no max_length, so no translation has more than {limit} tokens, as with generate; "
        "raise decoding.max_target_length and decoding.target_length_margin in config.json for more"
    )
    return limit


def _suppressed(given: Generation, target: Vocabulary) -> set[int]:
    """Returns the tokens, without EOS, that must not be generated."""
    single = {word[0] for word in given.bad_words_ids if len(word) == 1}
    return (single | set(given.suppress_tokens)) & set(range(target.size)) - {target.eos_id}


def _warn(what: str) -> None:
    warnings.warn(f"the generation config {what}", stacklevel=3)
