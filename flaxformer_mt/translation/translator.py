"""Translates text with a trained model.

    translator = Translator.load("workdir")
    print(translator.translate("A dog runs.")[0])

`Translator.translate` has these stages, each in a module of this package:

    segments    lines -> sentences -> segments of token ids
    requests    segments, prefixes, constraints -> requests; `checks` refuses impossible ones
    searching   requests -> groups of like length -> search on the devices -> hypotheses
    results     hypotheses of a segment -> those with different texts, in order
    describing  hypotheses -> token probabilities, attention, flags and copies of unknown words
    results     hypotheses of segments -> hypotheses of lines

`setup` has what they share.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

from flaxformer_mt.checkpoints.loading import load_model
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.inference.devices import on_all_devices
from flaxformer_mt.inference.ensemble import params_in_dtype
from flaxformer_mt.model.config import Dtype
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.storage.paths import PathLike
from flaxformer_mt.translation.checks import (
    as_checkpoint_name,
    as_constraints,
    as_list,
    as_lists,
    as_path,
    as_prefixes,
    as_sentences,
    check_ensemble,
    check_requests,
    check_same_number,
    check_vocabularies,
)
from flaxformer_mt.translation.config import DecodingConfig, changed_config
from flaxformer_mt.translation.describing import describe, describe_pair, make_example
from flaxformer_mt.translation.requests import Request, constrained_lines, make_requests
from flaxformer_mt.translation.results import (
    NO_DETAILS,
    Hypothesis,
    PairScore,
    distinct,
    join_lines,
    ranked,
)
from flaxformer_mt.translation.searching import schedule, score_examples, search
from flaxformer_mt.translation.segments import segment_lines, tag_lines, warn
from flaxformer_mt.translation.setup import Ensemble, Setup, suppressed_tokens
from flaxformer_mt.translation.word_ends import TargetWords

_ARGUMENTS = ("prefixes", "constraints", "target_language", "details", "first_line")


class Translator:
    """Translates and scores sentences, also from several threads. It compiles at first use."""

    def __init__(
        self,
        model: Transformer,
        params: Mapping[str, Any],
        tokenizer: Tokenizer,
        config: DecodingConfig | None = None,
        *,
        max_source_length: int = 256,
        checkpoint: str = "",
        source_language: str = "en",
    ) -> None:
        """Combines a model, its parameters and its tokenizer.

        `checkpoint` names the parameters, for messages: "averaged" or the number of a step.
        `source_language` decides how lines are split into sentences.
        Raises ValueError if the model was made for another tokenizer.
        """
        if max_source_length < 2:
            raise ValueError(
                f"max_source_length must be at least 2 (a token and EOS), got {max_source_length}"
            )
        check_vocabularies(model, tokenizer)
        self.model, self.params, self.tokenizer = model, params, tokenizer
        self.checkpoint = checkpoint
        self.config = config or DecodingConfig()
        self.max_source_length = max_source_length
        self.source_language = source_language
        self._ensemble = Ensemble([model], [params], max_source_length)
        self._words = TargetWords(tokenizer.target)

    @classmethod
    def load(
        cls,
        workdir: PathLike,
        *,
        checkpoint: str | int = "auto",
        dtype: Dtype | None = None,
    ) -> "Translator":
        """Returns the translator of the model that was trained in `workdir`.

        `checkpoint` names its parameters: "averaged", "best", "last", the number of a step, or
        "auto": the first of those three that exists. It computes in `dtype`; None = as in training.
        Raises FileNotFoundError or ValueError, saying what is missing or wrong in `workdir`.
        """
        loaded = load_model(as_path(workdir), as_checkpoint_name(checkpoint))
        model = loaded.model
        if dtype:
            model = model.clone(config=dataclasses.replace(model.config, dtype=dtype))
        return cls(
            model,
            on_all_devices(params_in_dtype(loaded.params, model.config.dtype)),
            loaded.tokenizer,
            loaded.config.decoding,
            max_source_length=loaded.config.data.max_source_length,
            checkpoint=loaded.checkpoint,
            source_language=loaded.config.data.source_language,
        )

    @classmethod
    def ensemble(
        cls, members: Sequence["Translator"], weights: Sequence[float] = ()
    ) -> "Translator":
        """Returns a translator with the (weighted) mean of its members' token probabilities.

        It has all other settings from the first member. Raises ValueError if the vocabularies
        differ, or unless there is one weight above 0 for each member.
        """
        weights = check_ensemble([member.tokenizer for member in members], weights)
        first = members[0]
        if len(members) == 1:
            return first
        translator = cls(
            first.model,
            first.params,
            first.tokenizer,
            first.config,
            max_source_length=min(member.max_source_length for member in members),
            checkpoint=", ".join(member.checkpoint for member in members),
            source_language=first.source_language,
        )
        parts = [member._ensemble for member in members]
        shares = zip(weights, parts, strict=True)
        translator._ensemble = Ensemble(
            [model for part in parts for model in part.models],
            [params for part in parts for params in part.params],
            translator.max_source_length,
            [weight * share for weight, part in shares for share in part.weights or (1.0,)],
        )
        return translator

    @property
    def fingerprint(self) -> str:
        """A hash, in 32 hexadecimal digits, of all that the results depend on, except `config`."""
        words = sorted(self.tokenizer.known_words or ())
        tokens = self.tokenizer.fingerprint, self.max_source_length
        parts = self._ensemble.fingerprint, self.source_language, *tokens, words
        return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()

    @overload
    def translate(self, sentences: str, **options: Any) -> list[Hypothesis]: ...

    @overload
    def translate(self, sentences: Iterable[str], **options: Any) -> list[list[Hypothesis]]: ...

    def translate(
        self,
        sentences: Any,
        *,
        prefixes: Any = None,
        constraints: Any = None,
        target_language: str | None = None,
        details: bool = False,
        first_line: int = 1,
        **changes: Any,
    ) -> Any:
        """Translates one sentence, or many.

        Args:
          sentences: one string, or a list, generator or open text file of them. A blank sentence
            stays blank.
          prefixes: the beginning of each translation; "" or None = any. Its last word may be the
            beginning of a longer word, unless a space follows it.
          constraints: a list of phrases for each sentence, which its translation contains as whole
            words; None = none. If `sentences` is one string, `prefixes` is one string and
            `constraints` one list of phrases.
          target_language: the language to translate into, such as "fr", for a multilingual model;
            None = each sentence begins with its tag, such as ">>fr<< A dog runs.".
          details: add `Hypothesis.details`; this costs a second pass over the hypotheses.
          first_line: the number of the first sentence, for messages.
          changes: fields of `DecodingConfig` (beam_size, length_penalty, ...) with other values
            than in this translator's config; None = no change.

        Returns one list for each sentence, in order (for one string: that list): up to
        `num_hypotheses` hypotheses with different texts, best first. Of equal texts with different
        tokens, only the best one is returned. (Strategy "mbr" orders by utility. "sample" and
        "sample_distinct" return them in the order of sampling; those of "sample" can be equal.) A
        blank sentence has one hypothesis: "", with score 0. The hypotheses of a sentence do not
        depend on the other sentences. A string with several sentences is split into them
        (`split_sentences`), and its i-th hypothesis joins the i-th of each. A sentence that is too
        long is split or truncated, with a warning.

        Raises ValueError for an impossible config, language, prefix or constraint, and if the
        model's scores are not finite.
        """
        setup, lines, requests = self._prepare(
            sentences,
            False,
            prefixes=prefixes,
            constraints=constraints,
            target_language=target_language,
            first_line=first_line,
            **changes,
        )
        config = setup.config
        # ------------------------------------------------------------------ search
        found = search(requests, setup)
        # ------------------------------------------------------------------ rank, describe
        found = [ranked(of_one, config) for of_one in found]
        found = describe(requests, found, setup, with_details=details)
        # ------------------------------------------------------------------ join segments
        flags = () if config.flag_faults else None
        blank = Hypothesis("", [], 0.0, flags=flags, details=NO_DETAILS if details else None)
        segment_origins = [(request.line - first_line, request.gap) for request in requests]
        results = join_lines(len(lines), segment_origins, found, blank, self.tokenizer.target)
        if config.strategy != "sample":  # other segments can make the same line
            results = list(map(distinct, results))
        return results[0] if isinstance(sentences, str) else results

    def check(self, sentences: Any, *, details: bool = False, **options: Any) -> None:
        """Raises the errors that `translate` would raise before its search; translates nothing."""
        setup, _, requests = self._prepare(sentences, True, **options)
        schedule(requests, setup)

    def search(self, requests: Sequence[Request], config: DecodingConfig) -> list[list[Hypothesis]]:
        """Returns the hypotheses of every request, in order: the search without the text."""
        return search(requests, self._setup(config))

    @overload
    def score(self, sources: str, targets: Any, **options: Any) -> PairScore: ...

    @overload
    def score(self, sources: Iterable[str], targets: Any, **options: Any) -> list[PairScore]: ...

    def score(
        self,
        sources: Any,
        targets: Any,
        *,
        target_language: str | None = None,
        details: bool = False,
        first_line: int = 1,
        **changes: Any,
    ) -> Any:
        """Returns the score of each target as a translation of its source, or of one pair.

        A target is text, or tokens with EOS at the end (as in `Hypothesis.tokens`). A text has
        several tokenizations. Only a hypothesis's own tokens get exactly the score that the search
        reported, and only if the source has no unknown words. Longer texts than the limits are
        truncated, with a warning. (For a line that it splits, `translate` reports the sum.)
        The other arguments are as in `translate`. The score depends on `length_penalty`,
        `length_normalization`, `forced_end` and `renormalize`; `flag_faults` looks for faults.
        A pair of two blank sides has score 0 and no tokens, as in `translate`. If one side is
        blank, it is scored as EOS alone.
        Raises ValueError for lists of unequal length and for impossible tokens.
        """
        is_one = isinstance(sources, str)
        if is_one:
            sources, targets = [sources], [targets]
        setup = self._setup(changed_config(self.config, changes, _ARGUMENTS[2:]))
        lines = as_sentences(sources, "sources", first_line=first_line)
        targets = as_list(targets, "targets")
        check_same_number(len(lines), targets, "target")
        tagged = tag_lines(lines, self.tokenizer, target_language, first_line=first_line)
        pairs = zip(tagged, targets, strict=True)
        made = [
            make_example(source, target, line, setup)
            for line, (source, target) in enumerate(pairs, start=first_line)
        ]
        examples = [example for example, _ in made]
        limits = [setup.config.length_limit(len(example.inputs)) for example in examples]
        with_attention = details or setup.config.flag_faults
        numbers = range(first_line, first_line + len(examples))
        scores = score_examples(
            examples, limits, setup, with_attention=with_attention, lines=numbers
        )
        results = [
            describe_pair(example, score, num_unread, setup, with_details=details)
            for (example, num_unread), score in zip(made, scores, strict=True)
        ]
        return results[0] if is_one else results

    def _setup(self, config: DecodingConfig) -> Setup:
        """Returns what the stages of a call share. Refuses impossible settings."""
        suppressed = suppressed_tokens(self.tokenizer, config)
        return Setup(config, self._ensemble, self.tokenizer, self._words, suppressed)

    def _prepare(
        self,
        sentences: Any,
        quiet: bool,
        /,
        *,
        prefixes: Any = None,
        constraints: Any = None,
        target_language: str | None = None,
        first_line: int = 1,
        **changes: Any,
    ) -> tuple[Setup, list[str], list[Request]]:
        """Returns the setup, the lines and their requests, after all checks."""
        sentences, prefixes, constraints = as_lists(sentences, prefixes, constraints)
        setup = self._setup(changed_config(self.config, changes, _ARGUMENTS))
        lines = as_sentences(sentences, first_line=first_line)
        prefixes = as_prefixes(prefixes, len(lines), first_line)
        constraints = as_constraints(constraints, len(lines), first_line)
        constrained = constrained_lines(prefixes, constraints, first_line)
        segments = segment_lines(
            tag_lines(lines, self.tokenizer, target_language, first_line=first_line),
            self.tokenizer,
            max_source_length=self.max_source_length,
            over_long=setup.config.over_long,
            first_line=first_line,
            quiet=quiet,
            sentences_of=self.source_language if setup.config.split_sentences else None,
            whole_lines=constrained,
            mask_unknown=setup.config.copy_unknown,
        )
        requests = make_requests(segments, prefixes, constraints, setup, first_line=first_line)
        check_requests(requests, setup)
        if not quiet:
            for line in sorted(constrained - {request.line for request in requests}):
                warn(f"line {line} is blank, so its prefix and constraints have no effect.")
        return setup, lines, requests
