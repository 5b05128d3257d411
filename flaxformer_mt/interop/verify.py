"""Verifies an export by comparing its translations of a file with those of the workdir.

The export runs in its own engine. Our search uses the rules of that engine:

    Marian, in transformers    length_normalization "average", forced_end "free",
                               early_stopping "heuristic"
    CTranslate2                the same with renormalize, except early_stopping: "first", or "exact"
                               if the length penalty is 0 (its src/decoding.cc, patience 1)

One difference remains for translations that reach the length limit: CTranslate2 ends every
hypothesis one token before the limit, and our search may stop earlier.
"""

import dataclasses
import json
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flaxformer_mt import __version__
from flaxformer_mt.checkpoints.loading import LoadedModel
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.vocabulary import without_line_breaks
from flaxformer_mt.evaluation.metrics import CorpusScores, default_tokenize
from flaxformer_mt.interop import Format, optional
from flaxformer_mt.interop.ctranslate2 import read_pieces, starts_with_padding
from flaxformer_mt.runtime.host import num_cpus
from flaxformer_mt.runtime.line_input import open_parallel
from flaxformer_mt.translation.config import DecodingConfig
from flaxformer_mt.translation.setup import suppressed_tokens
from flaxformer_mt.translation.translator import Translator

REPORT = "verification.json"
NUM_DIFFERENCES = 10
MARIAN_BATCH, CTRANSLATE2_BATCH = 32, 64  # sentences
PACKAGES = {"marian": ("jax", "torch", "transformers"), "ctranslate2": ("jax", "ctranslate2")}
MIN_IDENTICAL = 0.995
"""Least share of identical translations of an export with unrounded parameters."""
MAX_BLEU_LOSS = 1.0
"""With references: largest loss of BLEU of a rounded export, compared with the workdir."""
MIN_BLEU_TO_WORKDIR = 85.0
"""Without references: least BLEU of a rounded export against the translations of the workdir."""


class VerificationFailed(ValueError):
    """Raised if the translations of an export differ too much; the message has the numbers."""


class Translation(NamedTuple):
    """The translation of one line."""

    text: str
    score: float
    """Log-probability (natural logarithm) / tokens ** alpha. The tokens include EOS."""


def verify_export(
    directory: Path,
    format: Format,
    loaded: LoadedModel,
    file: str,
    *,
    exact: bool,
    reference: str = "",
    beam_size: int = 5,
    length_penalty: float = 1.0,
) -> str:
    """Compares the translations of an export with those of the original model.

    Args:
      directory: directory of the export. The report is written there, as verification.json.
      format: format of the export.
      loaded: the original model.
      file: UTF-8 text to translate, one sentence a line.
      exact: whether the export has unrounded parameters.
      reference: UTF-8 file with the reference translation of each line; "" = none.
      beam_size, length_penalty: settings of both searches.

    Returns the results in a few lines. Raises VerificationFailed if the translations differ too
    much, and ValueError or OSError for unusable text or a missing engine.
    """
    files = open_parallel(file, *([reference] if reference else []))
    lines, *references = (list(one.lines()) for one in files)
    lengths = [len(loaded.tokenizer.source.tokenize(line)) for line in lines]
    longest = loaded.config.data.max_source_length
    kept = [i for i, length in enumerate(lengths) if 1 < length <= longest]
    if not kept:
        raise ValueError(
            f"{file} has no line of 1 to {longest - 1} tokens; give a text with such lines to "
            "verify the export"
        )
    sources = [lines[i] for i in kept]
    limit = loaded.config.decoding.length_limit(max(lengths[i] for i in kept))
    decoding = _search_rules(format, loaded, limit, beam_size, length_penalty)
    if format == "marian":
        theirs = _by_transformers(directory, decoding, sources)
    else:
        theirs = _by_ctranslate2(directory, decoding, loaded.tokenizer, sources)
    ours = _by_us(loaded, decoding, sources)
    against = [references[0][i] for i in kept] if references else None
    found = compare(ours, theirs, against)
    passed, expected = judge(found, exact=exact)
    report = {
        "format": format,
        "passed": passed,
        "expected": expected,
        "search": dataclasses.asdict(decoding),
        "lines": len(kept),
        "lines_left_out": len(lines) - len(kept),  # blank, or longer than max_source_length
        **found,
        "first_differences": [
            {"line": i + 1, "source": lines[i], "workdir": one.text, "export": other.text}
            for i, one, other in zip(kept, ours, theirs, strict=True)
            if one.text != other.text
        ][:NUM_DIFFERENCES],
        "versions": {
            "flaxformer_mt": __version__,
            **{package: version(package) for package in PACKAGES[format]},
        },
    }
    text = json.dumps(report, indent=2, ensure_ascii=False)
    (directory / REPORT).write_text(text + "\n", encoding="utf-8")
    summary = f"{found['identical']:.2%} of {len(kept)} translations are identical"
    if found["largest_score_difference"] is not None:
        summary += f", their scores differ by at most {found['largest_score_difference']:.1e}"
    for name in ("bleu", "chrf"):
        sides = ", ".join(f"{side} {found[name][side]:.2f}" for side in ("workdir", "export"))
        summary += f"\n{name} against the {found['against']}: {sides}"
    if not passed:
        raise VerificationFailed(f"expected {expected}, but:\n{summary}")
    return summary


def compare(
    ours: Sequence[Translation],
    theirs: Sequence[Translation],
    references: Sequence[str] | None,
) -> dict[str, Any]:
    """Returns how similar two lists of translations are.

    identical: fraction of lines with the same text.
    largest_score_difference: over the identical lines; None if there are none.
    against: "reference", or "workdir" if its translations serve as references.
    bleu, chrf: cased sacreBLEU scores of "workdir" and "export", and the "signature".
    """
    pairs = list(zip(ours, theirs, strict=True))
    gaps = [abs(one.score - other.score) for one, other in pairs if one.text == other.text]
    texts = {"workdir": [one.text for one in ours], "export": [one.text for one in theirs]}
    against = texts["workdir"] if references is None else references
    tokenize = default_tokenize(against)
    # Without effective order, a text of lines with fewer than four words has a BLEU of 0.
    scores = {
        side: CorpusScores(tokenize=tokenize, effective_order=True).add(lines, against).scores()
        for side, lines in texts.items()
    }
    found: dict[str, Any] = {
        "identical": len(gaps) / len(ours),
        "largest_score_difference": max(gaps, default=None),
        "against": "workdir" if references is None else "reference",
    }
    for i, name in enumerate(("bleu", "chrf")):
        found[name] = {side: both[i].value for side, both in scores.items()}
        found[name]["signature"] = scores["export"][i].signature
    return found


def judge(found: dict[str, Any], *, exact: bool) -> tuple[bool, str]:
    """Returns whether an export with these results passes, and the condition in words."""
    score = found["bleu"]
    if exact:
        passed = found["identical"] >= MIN_IDENTICAL
        expected = f"at least {MIN_IDENTICAL:.2%} of the translations identical"
    elif found["against"] == "reference":
        passed = score["export"] >= score["workdir"] - MAX_BLEU_LOSS
        expected = f"a BLEU at most {MAX_BLEU_LOSS} below the workdir's"
    else:
        passed = score["export"] >= MIN_BLEU_TO_WORKDIR
        expected = f"a BLEU of at least {MIN_BLEU_TO_WORKDIR} against the workdir's output"
    return passed or found["identical"] == 1, expected


def _search_rules(
    format: Format, loaded: LoadedModel, limit: int, beam_size: int, length_penalty: float
) -> DecodingConfig:
    """Returns the rules of both searches, with one length limit for all sentences."""
    given = loaded.config.decoding
    kept = ("tokens_per_batch", "max_rows_per_batch", "allow_unknown", "allow_special", "forbidden")
    rules = DecodingConfig(
        split_sentences=False,
        copy_unknown=False,
        beam_size=beam_size,
        length_penalty=length_penalty,
        length_normalization="average",
        early_stopping="heuristic",
        forced_end="free",
        max_target_length=limit,
        target_length_ratio=0.0,
        target_length_margin=limit,
        renormalize=given.renormalize,
        **{name: getattr(given, name) for name in kept},
    )
    if format == "marian":
        return rules
    return dataclasses.replace(
        rules,
        renormalize=True,
        early_stopping="first" if length_penalty else "exact",
        allow_special=given.allow_special and not starts_with_padding(loaded.tokenizer.target),
    )


def _by_us(
    loaded: LoadedModel, decoding: DecodingConfig, lines: Sequence[str]
) -> list[Translation]:
    """Returns the translations of our own search, in float32 as in the engines."""
    translator = Translator(
        loaded.model.clone(config=dataclasses.replace(loaded.model.config, dtype="float32")),
        loaded.params,
        loaded.tokenizer,
        decoding,
        max_source_length=loaded.config.data.max_source_length,
    )
    return [Translation(found[0].text, found[0].score) for found in translator.translate(lines)]


def _by_ctranslate2(
    directory: Path, decoding: DecodingConfig, tokenizer: Tokenizer, lines: Sequence[str]
) -> list[Translation]:
    """Returns the translations of CTranslate2 on the CPU."""
    import ctranslate2

    # One batch for each CPU, because threads that share a batch wait for each other.
    engine = ctranslate2.Translator(str(directory), inter_threads=num_cpus(), intra_threads=1)
    source, target = tokenizer.source, tokenizer.target
    names = read_pieces(directory, "target")
    # Only the export knows the names of special tokens. All other tokens must be our pieces.
    ids = {text: i for pieces in (names, target.pieces) for i, text in enumerate(pieces)}
    suppressed = np.flatnonzero(suppressed_tokens(tokenizer, decoding))
    found = engine.translate_batch(
        [[source.pieces[i] for i in source.tokenize(line)[:-1]] for line in lines],
        max_batch_size=CTRANSLATE2_BATCH,
        beam_size=decoding.beam_size,
        length_penalty=decoding.length_penalty,
        max_input_length=0,  # no limit
        max_decoding_length=decoding.max_target_length - 1,  # without EOS
        min_decoding_length=0,
        suppress_sequences=[[names[token]] for token in suppressed],
        return_end_token=True,  # so that the length penalty counts EOS
        return_scores=True,
    )
    translations = []
    for one in found:
        tokens, score = one.hypotheses[0], one.scores[0]
        if tokens[-1:] != [names[target.eos_id]]:  # at the limit, our search adds and counts EOS
            score *= (len(tokens) / (len(tokens) + 1)) ** decoding.length_penalty
        text = target.detokenize([ids[token] for token in tokens])
        translations.append(Translation(text, score))
    return translations


def _by_transformers(
    directory: Path, decoding: DecodingConfig, lines: Sequence[str]
) -> list[Translation]:
    """Returns the translations of transformers on the CPU.

    generation_config.json lists the suppressed tokens. Raises ValueError if a package is missing,
    and for greedy search, because transformers then reports no scores.
    """
    if decoding.beam_size < 2:
        raise ValueError(
            f"verifying a Marian export needs a beam of at least 2, got {decoding.beam_size}"
        )
    torch, transformers = (
        optional(name, "flaxformer-mt[parity]", "verifying a Marian export")
        for name in ("torch", "transformers")
    )
    torch.set_num_threads(num_cpus())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends sacremoses, which is not needed here
        tokenizer = transformers.MarianTokenizer.from_pretrained(directory)
    model = transformers.MarianMTModel.from_pretrained(directory).eval()
    translations: dict[str, Translation] = {}
    ordered = sorted(set(lines), key=len)  # little padding
    for start in range(0, len(ordered), MARIAN_BATCH):
        batch = ordered[start : start + MARIAN_BATCH]
        with torch.inference_mode():
            found = model.generate(
                **tokenizer(batch, padding=True, return_tensors="pt"),
                num_beams=decoding.beam_size,
                num_return_sequences=1,
                length_penalty=decoding.length_penalty,
                early_stopping=False,
                min_length=0,
                max_length=decoding.max_target_length + 1,  # counts the start token
                no_repeat_ngram_size=0,
                repetition_penalty=1.0,
                return_dict_in_generate=True,
                output_scores=True,
            )
        texts = tokenizer.batch_decode(found.sequences, skip_special_tokens=True)
        for line, text, score in zip(batch, texts, found.sequences_scores.tolist(), strict=True):
            translations[line] = Translation(without_line_breaks(text), score)
    return [translations[line] for line in lines]
