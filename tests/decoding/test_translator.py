"""Text in, text out, with a tiny random model: what must hold for any parameters."""

import dataclasses
import unicodedata
import warnings
from collections import Counter
from typing import ClassVar

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flaxformer_mt.data.tokenizer import Tokenizer
from flaxformer_mt.decoding.config import DecodingConfig
from flaxformer_mt.decoding.programs import search_batch
from flaxformer_mt.decoding.translator import Hypothesis, Translator
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.transformer import Transformer

PAD, UNK, BOS, EOS = range(4)
LETTERS = "abcdefghijklmnopqrstuvwxyz .\n"  # with a line break, which byte tokens can spell too


class LetterVocabulary:
    """A token a letter; others are unknown, and invisible ones dropped, as SentencePiece does."""

    suffix: ClassVar[str] = ".letters"
    pieces = ("<pad>", "<unk>", "<s>", "</s>", *LETTERS)
    size = len(pieces)
    pad_id, unk_id, bos_id, eos_id = PAD, UNK, BOS, EOS

    def tokenize(self, text: str) -> list[int]:
        visible = [letter for letter in text if unicodedata.category(letter) != "Cf"]
        return [LETTERS.find(letter) + 4 if letter in LETTERS else UNK for letter in visible] + [
            EOS
        ]

    def detokenize(self, ids) -> str:
        ids = list(ids)
        ids = ids[: ids.index(EOS)] if EOS in ids else ids
        return "".join(LETTERS[token - 4] for token in ids if token >= 4)

    def sample(self, text: str, rng: np.random.Generator) -> list[int]:
        return self.tokenize(text)

    def to_bytes(self) -> bytes:
        return LETTERS.encode()


CONFIG = DecodingConfig(
    beam_size=3,
    num_hypotheses=3,
    target_length_ratio=0.5,
    target_length_margin=4,
    tokens_per_batch=96,
    max_rows_per_batch=4,
)


def make_translator(config: DecodingConfig = CONFIG, scale: float = 3.0) -> Translator:
    """A random model of 24 source tokens at most: programs of 4 x 16 and 4 x 24 tokens."""
    size = LetterVocabulary.size
    model = Transformer(
        TransformerConfig(
            d_model=16, d_ff=16, num_heads=2, num_encoder_layers=1, num_decoder_layers=1
        ),
        source_vocab_size=size,
        target_vocab_size=size,
        bos_id=BOS,
    )
    ids = jnp.zeros((1, 2), jnp.int32)
    params = model.init(jax.random.key(0), ids, ids, ids, ids, ids, ids)["params"]
    params = jax.tree.map(lambda x: x * scale, params)  # far from uniform, or all would be alike
    tokenizer = Tokenizer(LetterVocabulary(), LetterVocabulary())
    return Translator(model, params, tokenizer, config, max_source_length=24)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return make_translator()


SENTENCES = [
    "a dog runs.",
    "two men",
    "a red car stands here.",  # too long for the program of 16
    "",
    "why not",
    "x",
    "the sun shines.",
    "  \t ",
    "we do not see.",
    "\u200b",
    "she reads",
    "yes.",
]


def test_one_result_for_each_sentence_and_blank_for_blank(translator):
    found = translator.translate(SENTENCES)
    assert len(found) == len(SENTENCES)
    for sentence, hypotheses in zip(SENTENCES, found, strict=True):
        if not sentence.strip(" \t\u200b"):
            assert hypotheses == [Hypothesis("", [], 0.0)]
        else:
            assert len(hypotheses) == 3
    assert len({hypotheses[0].text for hypotheses in found}) > 6  # or the tests below are hollow


def test_hypotheses_are_sorted_distinct_and_end_once(translator):
    for hypotheses in translator.translate([s for s in SENTENCES if s.strip(" \t\u200b")]):
        scores = [one.score for one in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(one.tokens) for one in hypotheses}) == 3
        for one in hypotheses:
            assert one.tokens[-1] == EOS
            assert not {PAD, UNK, BOS, EOS} & set(one.tokens[:-1])


@pytest.mark.parametrize("beam_size", [1, 3])
def test_company_place_and_padding_change_nothing(translator, beam_size):
    """Bit for bit, scores included: shuffled, alone, and in a larger batch."""
    given = {"beam_size": beam_size, "num_hypotheses": beam_size}
    found = translator.translate(SENTENCES, **given)
    order = np.random.default_rng(0).permutation(len(SENTENCES))
    shuffled = translator.translate([SENTENCES[place] for place in order], **given)
    assert shuffled == [found[place] for place in order]
    alone = [translator.translate([sentence], **given)[0] for sentence in SENTENCES]
    assert alone == found


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("length_penalty", [0.0, 1.2])
def test_score_gives_what_translate_reports(translator, beam_size, length_penalty):
    found = translator.translate(
        SENTENCES, beam_size=beam_size, num_hypotheses=beam_size, length_penalty=length_penalty
    )
    pairs = [(source, best) for source, (best, *_) in zip(SENTENCES, found, strict=True)]
    assert any(not best.tokens for _, best in pairs)  # blank lines too
    scored = translator.score(
        [source for source, _ in pairs],
        [reported.tokens for _, reported in pairs],
        length_penalty=length_penalty,
    )
    for (_, reported), score in zip(pairs, scored, strict=True):
        assert score.score == pytest.approx(reported.score, abs=1e-4)
        penalty = ((5 + len(score.tokens)) / 6) ** length_penalty
        assert score.log_prob / penalty == pytest.approx(score.score, abs=1e-5)
        assert sum(score.token_log_probs) == pytest.approx(score.log_prob, abs=1e-4)
        assert score.tokens == reported.tokens


def test_score_of_what_is_blank(translator):
    """On both sides: what `translate` reports. On one: EOS alone stands for it."""
    blank, no_source, no_target = translator.score(["  ", "", "a dog"], ["\u200b", "ein", " "])
    assert blank == (0.0, 0.0, [], [])
    assert no_source.score < 0 and len(no_source.tokens) == 4
    assert no_target.score < 0 and no_target.tokens == [EOS]


HUGGING_FACE = {"length_normalization": "average", "forced_end": "free"}


@pytest.mark.parametrize("more", [{"early_stopping": "heuristic"}, {"renormalize": True}])
def test_score_gives_what_translate_reports_with_other_rules_too(translator, more):
    config = dataclasses.replace(CONFIG, num_hypotheses=1, **HUGGING_FACE, **more)
    plain, other = loving(translator, UNK), loving(translator, UNK, config)
    pairs = zip(SENTENCES, other.translate(SENTENCES), strict=True)
    found = {source: best[0] for source, best in pairs if best[0].tokens}
    limits = [config.length_limit(len(LetterVocabulary().tokenize(source))) for source in found]
    assert [len(best.tokens) for best in found.values()] == limits  # EOS is free in all of them
    scored = other.score(list(found), [best.tokens for best in found.values()])
    assert [one.score for one in scored] == pytest.approx(
        [best.score for best in found.values()], abs=1e-4
    )
    (short,), (usual,) = other.score(["a dog"], ["ein"]), plain.score(["a dog"], ["ein"])
    assert short.score == pytest.approx(short.log_prob / 4**config.length_penalty, rel=1e-5)
    assert (short.log_prob > usual.log_prob + 0.1) == ("renormalize" in more)


def test_score_takes_text_too(translator):
    as_text, as_tokens = translator.score(
        ["a dog", "a dog"], ["ein hund", LetterVocabulary().tokenize("ein hund")]
    )
    assert as_text == as_tokens


def num_programs() -> int:
    return search_batch._cache_size()  # pyright: ignore[reportAttributeAccessIssue]


def test_no_program_is_compiled_twice(translator):
    translator.translate(SENTENCES)
    compiled = num_programs()
    translator.translate(["other words", "of the same lengths."] * 5)
    translator.translate(["a dog."], length_penalty=0.1)
    make_translator().translate(["an equal model"])
    assert num_programs() == compiled
    translator.translate(["a dog."], beam_size=2, num_hypotheses=1)
    assert num_programs() == compiled + 1


LONG = "the first ends here. the second one is longer, and ends there."


def test_a_long_line_is_split_with_a_warning(translator):
    message = r"line 2: 63 source tokens, but max_source_length is 24; split into 3 pieces"
    with pytest.warns(UserWarning, match=message):
        found = translator.translate(["a dog", LONG])[1]
    pieces = translator.translate(
        ["the first ends here.", "the second one is", "longer, and ends there."]
    )
    assert found[0].tokens == sum((p[0].tokens[:-1] for p in pieces), []) + [EOS]
    assert found[0].score == pytest.approx(sum(p[0].score for p in pieces))
    assert len(found) == 3


def test_a_long_line_can_be_truncated_with_a_warning(translator):
    truncating = make_translator(dataclasses.replace(CONFIG, over_long="truncate"))
    with pytest.warns(UserWarning, match="line 42: 63 source tokens.*only the first 23 are read"):
        found = truncating.translate([LONG], first_line=42)
    assert found == translator.translate([LONG[:23]])


def loving(translator: Translator, token: int, config: DecodingConfig = CONFIG) -> Translator:
    """A model that loves `token`: embedded like a frequent letter, but further out."""
    found = translator.translate(SENTENCES)
    letters = [letter for hypotheses in found for letter in hypotheses[0].tokens[:-1]]
    favourite = Counter(letters).most_common(1)[0][0]
    params = jax.tree.map(  # the shared embedding is the only matrix with a row for each token
        lambda x: x.at[token].set(1.5 * x[favourite]) if len(x) == LetterVocabulary.size else x,
        translator.params,
    )
    return Translator(translator.model, params, translator.tokenizer, config, max_source_length=24)


@pytest.mark.parametrize("allow_unknown", [False, True])
def test_the_unknown_word_comes_only_when_asked_for(translator, allow_unknown):
    config = dataclasses.replace(CONFIG, allow_unknown=allow_unknown)
    found = loving(translator, UNK, config).translate(SENTENCES)
    assert any(UNK in hypotheses[0].tokens for hypotheses in found) == allow_unknown


def test_a_translation_is_one_line_even_if_its_tokens_spell_line_breaks(translator):
    line_break = LetterVocabulary().tokenize("\n")[0]
    found = loving(translator, line_break).translate(SENTENCES)
    assert any(line_break in hypotheses[0].tokens for hypotheses in found)
    assert not any("\n" in hypotheses[0].text for hypotheses in found)


LINES = st.text(alphabet="ab. \t\r\x0b\u2028\u3000\u200bé。中🙂", max_size=60)


@hypothesis.given(lines=st.lists(LINES, max_size=9))
@hypothesis.settings(deadline=None, max_examples=25)
def test_odd_lines_keep_count_and_order(translator, lines):
    with warnings.catch_warnings(action="ignore"):
        found = translator.translate(lines)
        assert len(found) == len(lines)
        for line, hypotheses in zip(lines, found, strict=True):
            assert hypotheses
            assert all(len(h.text.splitlines()) <= 1 for h in hypotheses)
            blank = not line.strip() or LetterVocabulary().tokenize(line) == [EOS]
            assert (hypotheses[0] == Hypothesis("", [], 0.0)) == blank
    # Same line, same result, wherever it stands.
    assert len({(line, tuple(h[0].tokens)) for line, h in zip(lines, found, strict=True)}) == len(
        set(lines)
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"beam_size": 0}, "beam_size must be at least 1"),
        ({"num_hypotheses": 4}, "widen the beam"),
        ({"beam_size": 31}, "only 30 tokens to choose from"),
        ({"length_penalty": -0.5}, "length_penalty must be at least 0"),
        ({"length_penalty": float("nan")}, "length_penalty must be at least 0"),
    ],
)
def test_impossible_requests_are_refused(translator, given, message):
    with pytest.raises(ValueError, match=message):
        translator.translate(["a"], **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_target_length": 0}, "max_target_length must be at least 1"),
        ({"tokens_per_batch": 0}, "tokens_per_batch must be at least 1"),
        ({"target_length_margin": 0}, "room for EOS"),
    ],
)
def test_impossible_configs_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        DecodingConfig(**given)


def test_impossible_pairs_are_refused(translator):
    for sources, targets, message in (
        (["a"], ["b", "c"], "1 sources and 2 targets"),
        (["a"], [[5, EOS, 6]], "must be EOS"),
        (["a"], [[5, 99, EOS]], r"must be in 0\.\.32"),
    ):
        with pytest.raises(ValueError, match=message):
            translator.score(sources, targets)


def test_a_lone_string_is_refused(translator):
    with pytest.raises(ValueError, match="put it into a list"):
        translator.translate("a dog runs.")


def test_parameters_that_are_not_numbers_are_noticed():
    with pytest.raises(ValueError, match="line 7: the model's score is .* earlier checkpoint"):
        make_translator(scale=float("nan")).translate(["a dog"], first_line=7)


def test_a_foreign_tokenizer_is_refused(translator):
    model = translator.model.clone(target_vocab_size=50)
    with pytest.raises(ValueError, match="target vocabulary size is 50 in the model and 33 in"):
        Translator(model, translator.params, translator.tokenizer, max_source_length=24)
