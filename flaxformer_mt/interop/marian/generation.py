"""generation_config.json of a Hugging Face model, as a search config of ours and back.

The search that is read is the one that `generate` of transformers 5.x does by that file, to the
token; see `decoding.beam_search` for the rules.
"""

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.interop.marian.config import Json, misfits, with_defaults
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
}
DEFAULT_NEW_TOKENS = 20
DIFFERENT = "translations may differ"
EARLY_STOPPING: Mapping[bool | str, EarlyStopping] = {
    False: "heuristic",
    True: "first",
    "never": "exact",
}
# Fields that change what `generate` finds, and that our search has no like of: their idle values.
NOT_SUPPORTED: Mapping[str, tuple[Any, ...]] = {
    "do_sample": (False,),
    "num_beam_groups": (1,),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "repetition_penalty": (1.0,),
    "encoder_repetition_penalty": (1.0,),
    "exponential_decay_length_penalty": (),
    "sequence_bias": (),
    "begin_suppress_tokens": ([],),
    "forced_bos_token_id": (),
    "guidance_scale": (1.0,),
    "stop_strings": (),
}


def to_decoding_config(values: Json, target: Vocabulary, *, max_positions: int) -> DecodingConfig:
    """The search that `values` describe.

    Args:
      values: generation_config.json, or config.json where there is no such file.
      target: the vocabulary that ids refer to.
      max_positions: max_position_embeddings of config.json.

    Warns of what is set there and cannot be done here; raises ValueError, with every reason, for
    values that no search can have.
    """
    values = with_defaults(values, DEFAULTS)
    if reasons := list(_reasons_against(values)):
        raise ValueError("; ".join(reasons))
    for name, idle in NOT_SUPPORTED.items():
        if values.get(name) is not None and values[name] not in idle:
            _warn(f"sets {name} to {values[name]!r}, which this search does not have: " + DIFFERENT)
    if values.get("forced_eos_token_id") is None:
        _warn("has no forced_eos_token_id, but here every translation ends with EOS: " + DIFFERENT)
    for name in ("eos_token_id", "forced_eos_token_id"):
        if values.get(name) not in (None, target.eos_id, [target.eos_id]):
            _warn(
                f"sets {name} to {values[name]!r}, but here {target.eos_id} alone ends a "
                "translation: " + DIFFERENT
            )
    limit = _length_limit(values, max_positions)
    suppressed = _suppressed(values, target)
    special = {target.pad_id, target.bos_id}
    by_name = {target.unk_id} | (special if special <= suppressed else set())
    return DecodingConfig(
        beam_size=values["num_beams"],
        num_hypotheses=min(values["num_return_sequences"], values["num_beams"]),
        length_penalty=_length_penalty(values["length_penalty"]),
        length_normalization="average",
        early_stopping=EARLY_STOPPING[values["early_stopping"]],
        forced_end="free",
        max_target_length=limit,
        target_length_ratio=0.0,
        target_length_margin=limit,
        allow_unknown=target.unk_id not in suppressed,
        allow_special=not special <= suppressed,
        forbidden=tuple(sorted(suppressed - by_name)),
        renormalize=bool(values["renormalize_logits"]),
    )


def to_generation_json(decoding: DecodingConfig, target: Vocabulary) -> dict[str, Any]:
    """What generation_config.json says of our search, as near as `generate` can come to it.

    Its penalty is always that of length_normalization="average".
    """
    suppressed = set(decoding.forbidden)
    suppressed |= set() if decoding.allow_special else {target.pad_id, target.bos_id}
    suppressed |= set() if decoding.allow_unknown else {target.unk_id}
    stopping = next(key for key, one in EARLY_STOPPING.items() if one == decoding.early_stopping)
    of_beams = {"length_penalty": decoding.length_penalty, "early_stopping": stopping}
    return {
        "num_beams": decoding.beam_size,
        "num_return_sequences": decoding.num_hypotheses,
        "max_length": decoding.max_target_length + 1,  # there the start token counts
        **(of_beams if decoding.beam_size > 1 else {}),  # transformers objects to them without
        "bad_words_ids": [[token] for token in sorted(suppressed)] or None,
        "renormalize_logits": decoding.renormalize,
        "decoder_start_token_id": target.bos_id,
        "pad_token_id": target.pad_id,
        "eos_token_id": target.eos_id,
        "forced_eos_token_id": target.eos_id,
    }


def _reasons_against(values: Json) -> Iterator[str]:
    lengths = {name: 1 for name in ("max_length", "max_new_tokens") if values.get(name) is not None}
    # The one field that is of two kinds.
    yield from misfits({**values, "early_stopping": False}, DEFAULTS | lengths)
    if values["early_stopping"] not in list(EARLY_STOPPING):
        yield f"early_stopping is {values['early_stopping']!r}, expected false, true or 'never'"
    words = values["bad_words_ids"]
    if not (isinstance(words, list) and all(map(_are_ids, words))):
        yield f"bad_words_ids is {words}, expected a list of lists of token ids"
    if not _are_ids(values["suppress_tokens"]):
        yield f"suppress_tokens is {values['suppress_tokens']}, expected a list of token ids"


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(token) is int for token in value)


def _length_limit(values: Json, max_positions: int) -> int:
    """Tokens that `generate` adds at most; its max_length counts the start token too."""
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


def _suppressed(values: Json, target: Vocabulary) -> set[int]:
    """Single tokens that are never chosen, of those that there are."""
    words = [*values["bad_words_ids"], *([token] for token in values["suppress_tokens"])]
    if any(len(word) > 1 for word in words):
        _warn("forbids words of several tokens (bad_words_ids), which is not done: " + DIFFERENT)
    single = {word[0] for word in words if len(word) == 1}
    return single & set(range(target.size)) - {target.eos_id}


def _length_penalty(alpha: float) -> float:
    if alpha >= 0:
        return float(alpha)
    _warn(f"sets length_penalty to {alpha}; 0, the least there is here, is taken: " + DIFFERENT)
    return 0.0


def _warn(what: str) -> None:
    warnings.warn(f"the generation config {what}", stacklevel=3)
