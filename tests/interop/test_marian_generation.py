"""Conversion of a generation config to a search config, and back."""

import warnings

import pytest

from flaxformer_mt.data.tokenization.word_vocabulary import WordVocabulary
from flaxformer_mt.interop.marian.generation import to_decoding_config, to_generation_json
from flaxformer_mt.translation.config import DecodingConfig

TARGET = WordVocabulary([(f"w{i}", 1) for i in range(12)])  # PAD, UNK, BOS, EOS: 0, 1, 2, 3
LIMITED = {"max_length": 31, "forced_eos_token_id": 3}


def read(**values) -> DecodingConfig:
    return to_decoding_config(LIMITED | values, TARGET, max_positions=64)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({}, {"beam_size": 1, "max_target_length": 30, "length_penalty": 1.0}),
        ({"num_beams": 6, "num_return_sequences": 4}, {"beam_size": 6, "num_hypotheses": 4}),
        ({"max_new_tokens": 7}, {"max_target_length": 7, "target_length_margin": 7}),
        ({"early_stopping": None}, {"early_stopping": "heuristic"}),
        ({"early_stopping": True}, {"early_stopping": "first"}),
        ({"early_stopping": "never"}, {"early_stopping": "exact"}),
        ({"renormalize_logits": True}, {"renormalize": True}),
        ({"min_length": 5}, {"min_target_length": 5}),
        ({"min_length": 50}, {"min_target_length": 30}),
        ({"min_length": 5, "min_new_tokens": 3}, {"min_target_length": 4}),
        ({"no_repeat_ngram_size": 3}, {"no_repeat_ngram_size": 3}),
        ({"num_beams": 2, "repetition_penalty": 2}, {"repetition_penalty": 2.0}),
        ({}, {"allow_unknown": True, "allow_special": True, "forbidden": ()}),
        (
            {"bad_words_ids": [[0], [2]]},
            {"allow_unknown": True, "allow_special": False, "forbidden": ()},
        ),
        ({"bad_words_ids": [[0], [1]]}, {"allow_unknown": False, "forbidden": (0,)}),
        ({"bad_words_ids": [[3]], "suppress_tokens": [9]}, {"forbidden": (9,)}),
        ({"bad_words_ids": [[999]], "suppress_tokens": [-1]}, {"forbidden": ()}),
        ({"eos_token_id": [3]}, {"forced_end": "free"}),
    ],
)
def test_fields_that_both_have(theirs, ours):
    with warnings.catch_warnings(action="error"):
        found = read(**theirs)
    assert {name: getattr(found, name) for name in ours} == ours


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        ({"stop_strings": ["."]}, r"sets stop_strings to \['.'\], which is not imported: tr"),
        ({"do_sample": True}, "sets do_sample to True"),
        ({"repetition_penalty": 1.2}, "sets repetition_penalty with num_beams 1"),
        (
            {"renormalize_logits": True, "min_length": 5, "no_repeat_ngram_size": 3},
            "sets renormalize_logits and min_length and no_repeat_ngram_size",
        ),
        ({"forced_eos_token_id": None}, "has no forced_eos_token_id"),
        (
            {"forced_eos_token_id": 5},
            "sets forced_eos_token_id to 5, but here only 3 ends a translation: tr",
        ),
        (
            {"eos_token_id": [3, 5]},
            r"sets eos_token_id to \[3, 5\], but here only 3 ends a translation: tr",
        ),
        (
            {"bad_words_ids": [[5, 6]]},
            "forbids words of several tokens .*, which are not imported: tr",
        ),
        ({"length_penalty": -1.0}, "sets length_penalty to -1.0, but the least here is 0"),
        ({"max_length": None}, "gives no max_length, so no translation has more than 20 tokens"),
    ],
)
def test_a_field_that_is_not_imported_is_warned_of(theirs, message):
    with pytest.warns(UserWarning, match=message):
        read(**theirs)


@pytest.mark.parametrize(
    "config",
    [
        {"num_beams": 5, "length_penalty": 0.6, "early_stopping": "never"},
        {"num_beams": 4, "num_return_sequences": 2, "bad_words_ids": [[0], [2], [7]]},
        {"renormalize_logits": True, "bad_words_ids": [[1]]},
        {"num_beams": 2, "min_length": 4, "no_repeat_ngram_size": 3, "repetition_penalty": 1.5},
    ],
)
def test_an_export_and_an_import_give_the_same_search(config):
    once = read(**config)
    assert to_decoding_config(to_generation_json(once, TARGET), TARGET, max_positions=64) == once


def test_a_search_that_generate_lacks_becomes_beam_search():
    config = DecodingConfig(strategy="sample", beam_size=5, num_hypotheses=10)
    with pytest.warns(UserWarning, match=r"strategy sample: `generate` uses beam search"):
        values = to_generation_json(config, TARGET)
    assert (values["num_beams"], values["num_return_sequences"]) == (5, 5)


def test_settings_that_generate_lacks_are_left_out_with_a_warning():
    with pytest.warns(UserWarning) as warned:
        to_generation_json(DecodingConfig(coverage_penalty=0.2, min_target_ratio=0.5), TARGET)
    assert [str(one.message).split(",")[0] for one in warned] == [
        "the generation config has decoding.coverage_penalty 0.2",
        "the generation config has decoding.min_target_ratio 0.5",
    ]


def test_a_penalty_of_greedy_search_is_exported_with_a_warning():
    with pytest.warns(UserWarning, match="repetition_penalty with greedy search"):
        values = to_generation_json(DecodingConfig(beam_size=1, repetition_penalty=1.5), TARGET)
    assert values["repetition_penalty"] == 1.5


def test_renormalisation_after_rules_is_exported_with_a_warning():
    with pytest.warns(UserWarning, match="normalises after these rules"):
        to_generation_json(DecodingConfig(renormalize=True, no_repeat_ngram_size=3), TARGET)


def test_tags_of_languages_are_forbidden():
    for allowed, forbidden in ((False, [[0], [1], [2], [7]]), (True, [[1]])):
        config = DecodingConfig(allow_special=allowed)
        assert to_generation_json(config, TARGET, tags=(7,))["bad_words_ids"] == forbidden


def test_our_default_search_is_exported_as_nearly_as_possible():
    values = to_generation_json(DecodingConfig(), TARGET)
    assert values["bad_words_ids"] == [[0], [1], [2]]
    assert (values["num_beams"], values["early_stopping"], values["max_length"]) == (
        5,
        "never",
        257,
    )
