"""An exported directory in CTranslate2 itself: it knows the directory and the text, not the model.

Its beam search is ours with these rules, which are all that it has: `length_normalization`
"average", `forced_end` "free", `renormalize`, and `early_stopping` "first", or "exact" where the
length penalty is 0 (its source: src/decoding.cc; its `patience` stays 1). One thing remains: it
ends all hypotheses one token before the limit, where ours may stop first and never see them end.
That matters only to translations that run into the limit.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from sentencepiece import SentencePieceProcessor

from flaxformer_mt.data.tokenization.vocabulary import without_line_breaks
from flaxformer_mt.interop.runner import Translation, group_by_limit
from flaxformer_mt.runtime.cpus import num_cpus
from flaxformer_mt.translation.config import DecodingConfig

ROWS = 64
NEW_WORD = "▁"  # SentencePiece writes it before a word
_LANGUAGE = re.compile(r">>[^<>]+<<")  # of the target, before the text: one token


class CTranslate2Runner:
    """Translates on the CPU."""

    def __init__(
        self, directory: Path, config: DecodingConfig, *, suppressed: Iterable[int]
    ) -> None:
        """Loads a directory that `write_ctranslate2` wrote.

        Args:
          directory: where it is.
          config: for beam_size, length_penalty and the limits of length.
          suppressed: ids of target tokens that no translation may contain.
        """
        import ctranslate2

        self.versions = {"ctranslate2": ctranslate2.__version__}
        # A batch on each CPU: threads that share a batch wait for one another all the time.
        self._translator = ctranslate2.Translator(
            str(directory), inter_threads=num_cpus(), intra_threads=1
        )
        self._config = config
        target = read_pieces(directory, "target")
        self._suppressed = [[target[token]] for token in suppressed]
        self._eos = _read_json(directory / "config.json")["eos_token"]
        self._tokenize = _tokenizer(directory)
        self._detokenize = _detokenizer(directory)

    def translate(self, lines: Sequence[str]) -> list[Translation]:
        """The best translation of every line, none of which is blank."""
        sources = [self._tokenize(line) for line in lines]
        groups = group_by_limit([len(source) + 1 for source in sources], self._config)
        under_way = {
            place: one
            for limit, places in groups.items()
            for place, one in zip(
                places, self._start([sources[i] for i in places], limit), strict=True
            )
        }
        results = [under_way[place].result() for place in range(len(lines))]
        return [self._translation(one.hypotheses[0], one.scores[0]) for one in results]

    def _start(self, sources: list[list[str]], limit: int) -> list[Any]:
        """Searches in the background; a result for each source, to be waited for."""
        return self._translator.translate_batch(
            sources,
            asynchronous=True,
            max_batch_size=ROWS,
            beam_size=self._config.beam_size,
            length_penalty=self._config.length_penalty,
            max_input_length=0,  # no limit
            max_decoding_length=limit - 1,  # EOS is not counted
            min_decoding_length=0,
            suppress_sequences=self._suppressed,
            return_end_token=True,  # and so its length counts it
            return_scores=True,
        )

    def _translation(self, tokens: list[str], score: float) -> Translation:
        if tokens and tokens[-1] == self._eos:
            tokens = tokens[:-1]
        else:  # ended by the limit, without the EOS that ours gets for nothing, and counts
            score *= (len(tokens) / (len(tokens) + 1)) ** self._config.length_penalty
        return Translation(without_line_breaks(self._detokenize(tokens)), score)


def _tokenizer(directory: Path) -> Callable[[str], list[str]]:
    """Cuts text by the SentencePiece model beside the model; at spaces where there is none."""
    model = directory / "source.spm"
    if not model.exists():
        return str.split
    processor = SentencePieceProcessor(model_file=str(model))
    vocabulary = set(read_pieces(directory, "source"))

    def tokenize(text: str) -> list[str]:
        language = _LANGUAGE.match(text)
        if language and language[0] in vocabulary:
            return [language[0], *processor.encode(text[language.end() :], out_type=str)]
        return processor.encode(text, out_type=str)

    return tokenize


def _detokenizer(directory: Path) -> Callable[[list[str]], str]:
    model = directory / "target.spm"
    if not model.exists():
        return " ".join
    processor = SentencePieceProcessor(model_file=str(model))

    def detokenize(tokens: list[str]) -> str:
        text = processor.decode_pieces(tokens)
        # A Marian vocabulary has pieces of both languages: those that this model does not know
        # keep their mark.
        return text.replace(NEW_WORD, " ").strip() if NEW_WORD in text else text

    return detokenize


def read_pieces(directory: Path, side: Literal["source", "target"]) -> list[str]:
    """The text of every token id of one language, as CTranslate2 takes and gives it."""
    shared = directory / "shared_vocabulary.json"
    return _read_json(shared if shared.exists() else directory / f"{side}_vocabulary.json")


def _read_json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))
