"""Text in, text out: the one place where search, model and tokenizer meet.

translator = Translator.load("workdir")
translator.translate(["A dog runs ."])[0][0].text
"""

import dataclasses
import functools
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

from flaxformer_mt.checkpoints.loading import load_model
from flaxformer_mt.data.batching.batch import BatchShape, Example, pad_batch
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.evaluation.confidence import Calibration, read_calibration
from flaxformer_mt.evaluation.quality_flags import Flag, check
from flaxformer_mt.inference.devices import mesh_of, on_all_devices
from flaxformer_mt.inference.ensemble import params_in_dtype
from flaxformer_mt.inference.grouping import (
    SHORTEST,
    SHORTEST_FRUGAL,
    Group,
    group_by_length,
    length_menu,
    run_ahead,
)
from flaxformer_mt.inference.programs import Scored, SearchProgram, score_batch, search_batch
from flaxformer_mt.model.config import Dtype
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.trace_cache import call_cached
from flaxformer_mt.search.config import DecodingConfig, changed_config, retry_config
from flaxformer_mt.search.step import Hypotheses
from flaxformer_mt.translation.checks import (
    check_as_many,
    check_ensemble,
    check_finite,
    check_is_list,
    check_requested,
    check_requests,
    check_target_tokens,
    check_vocabularies,
)
from flaxformer_mt.translation.hypotheses import (
    NO_TOKENS,
    Details,
    Hypothesis,
    PairScore,
    join,
    make_hypothesis,
    no_details,
)
from flaxformer_mt.translation.requests import (
    Request,
    make_batch,
    make_search_inputs,
    suppressed_tokens,
)
from flaxformer_mt.translation.segments import Segment, segment_lines, tag_lines, truncate
from flaxformer_mt.translation.word_ends import TargetWords

ROWS_PER_PLACE = 8
"""Of a program that searches: while the last sentences of its rows are searched, places stay empty,
the fewer of them the more rows there are. Elsewhere than on a CPU the memory grows by the sources'
keys and values."""
HYPOTHESES_ON_CPU = 160
"""Of a program that searches, at the same time. A token takes as long in empty places as in full
ones, but for the last sentences (`programs.fewer_places`): with more of them many sentences are no
faster, and few wait longer (`benchmarks/README.md`)."""


class Translator:
    """Translates and scores sentences; made once, used often. Compiles on first use."""

    def __init__(
        self,
        model: Transformer,
        params: Mapping[str, Any],
        tokenizer: Tokenizer,
        config: DecodingConfig | None = None,
        *,
        max_source_length: int = 256,
        checkpoint: str = "",
        calibration: Calibration | None = None,
        target_language: str = "",
    ) -> None:
        """Join a model, its parameters and its tokenizer.

        `checkpoint` says where the parameters come from: "averaged" or the number of a step.
        `calibration` gives translations a confidence, `target_language` BLEU its words (for MBR).
        Raises ValueError if the tokenizer is not the one that the model was made for.
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
        self.calibration = calibration
        self.target_language = target_language
        self._models, self._params = (model,), (params,)
        self._weights: tuple[float, ...] | None = None
        self._mesh = mesh_of(params)
        self._on_cpu = jax.default_backend() == "cpu"
        # A CPU would work on all programs at once, in the same caches.
        self._window = 0 if self._on_cpu else 2
        shortest = SHORTEST_FRUGAL if self._on_cpu else SHORTEST
        self._menu = length_menu(max_source_length, shortest)
        self._words = TargetWords(tokenizer.target)

    @property
    def _num_devices(self) -> int:
        return self._mesh.size if self._mesh else 1

    @classmethod
    def load(
        cls, workdir: str | os.PathLike[str], *, which: str = "auto", dtype: Dtype | None = None
    ) -> "Translator":
        """The translator that the training in `workdir` made.

        `which` names its parameters: "averaged", "best", "last", the number of a step, or "auto":
        the first of those three that there is. It computes in `dtype`, or as in training.
        Raises FileNotFoundError or ValueError, saying what is missing or wrong in `workdir`.
        """
        loaded = load_model(workdir, which=which)
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
            calibration=read_calibration(workdir, loaded.checkpoint),
            target_language=loaded.config.data.target_language,
        )

    @classmethod
    def ensemble(
        cls, members: Sequence["Translator"], weights: Sequence[float] = ()
    ) -> "Translator":
        """One translator that asks all members for every token, and goes by the mean of their
        probabilities (weighted, if weights are given). All else is as in the first.

        Raises ValueError if the vocabularies differ, or for weights that do not fit.
        """
        weights = check_ensemble([member.tokenizer for member in members], weights)
        first = members[0]
        if len(members) == 1:
            return first
        joined = cls(
            first.model,
            first.params,
            first.tokenizer,
            first.config,
            max_source_length=min(member.max_source_length for member in members),
            checkpoint=", ".join(member.checkpoint for member in members),
            target_language=first.target_language,
        )
        joined._models = tuple(model for member in members for model in member._models)
        joined._params = tuple(params for member in members for params in member._params)
        joined._weights = tuple(
            weight * part
            for member, weight in zip(members, weights, strict=True)
            for part in member._weights or (1.0,)
        )
        return joined

    def translate(
        self,
        sentences: Sequence[str],
        *,
        prefixes: Sequence[str | None] | None = None,
        constraints: Sequence[Sequence[str] | None] | None = None,
        target_language: str | None = None,
        details: bool = False,
        first_line: int = 1,
        **changes: Any,
    ) -> list[list[Hypothesis]]:
        """Translate every sentence.

        Args:
          sentences: one a line; blank ones stay blank, whatever is asked for them.
          prefixes: what each translation must begin with; "" or None for nothing. Its last word
            may go on.
          constraints: phrases that must appear in each translation, as whole words.
          target_language: into which of its languages a multilingual model shall translate, as
            "fr"; None = each sentence begins with its tag, as in ">>fr<< A dog runs.".
          details: add `Hypothesis.details`, for the price of a second pass over what was found.
          first_line: the number of the first sentence, for messages.
          changes: fields of `DecodingConfig` (beam_size, length_penalty, ...) that shall differ
            from this translator's config; None changes nothing.

        Returns one list for each sentence, in the order of `sentences`: up to `num_hypotheses`
        different hypotheses, best first (mbr: by utility; samples come as drawn, and may be equal).
        A blank sentence has one: "", with score 0. What is found for a sentence depends on no other
        sentence. A sentence that is too long is split or truncated, with a warning that gives its
        number.

        Raises ValueError for an impossible config, language, prefix or constraint, and if the
        model's scores are not finite.
        """
        config = changed_config(self.config, changes)
        requests = self._prepare(
            sentences, prefixes, constraints, target_language, first_line, config
        )
        found = self._find(requests, config, details=details)
        pieces: list[list[list[Hypothesis]]] = [[] for _ in sentences]
        for request, hypotheses in zip(requests, found, strict=True):
            pieces[request.line - first_line].append(hypotheses)
        blank = self._blank(config, details=details)
        return [
            join(of_line, self.tokenizer.target, self.calibration) if of_line else [blank]
            for of_line in pieces
        ]

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str | Sequence[int]],
        *,
        target_language: str | None = None,
        details: bool = False,
        **changes: Any,
    ) -> list[PairScore]:
        """The score that the model gives to each target as a translation of its source.

        A target is text, or tokens with EOS at the end (as in `Hypothesis.tokens`): a text can be
        cut into tokens in more than one way, and only the tokens that the search chose have exactly
        the score that it reported. What is longer than the limits is truncated, with a warning (a
        line that `translate` splits has the sum of the scores of its pieces there).
        `target_language`, `details` and `changes` are as in `translate`: what a score is depends on
        `length_penalty`, `length_normalization`, `forced_end` and `renormalize`; `flag_faults`
        looks for faults.
        A pair that is blank on both sides has score 0 and no tokens, as `translate` reports; one
        that is blank on one side is scored like any other, that side being EOS alone.

        Raises ValueError for lists of unequal length and for impossible tokens.
        """
        check_is_list(sources, "sources")
        check_is_list(targets, "targets")
        check_as_many(sources, targets, "target")
        config = changed_config(self.config, changes)
        tagged = tag_lines(sources, self.tokenizer, target_language)
        pairs = enumerate(zip(tagged, targets, strict=True), start=1)
        examples = [self._example(source, target, line, config) for line, (source, target) in pairs]
        found = self._score(examples, config, with_attention=details or config.flag_faults)
        blank = NO_TOKENS._replace(
            flags=() if config.flag_faults else None,
            details=no_details(self.calibration) if details else None,
        )
        scores = [
            blank if is_blank(example) else self._with_details(example, score, attention)
            for example, (score, attention) in zip(examples, found, strict=True)
        ]
        if config.flag_faults:
            of_pairs = zip(examples, scores, strict=True)
            scores = [self._with_flags(example, score, config) for example, score in of_pairs]
        if not details:
            scores = [score._replace(details=None) for score in scores]
        return scores

    def check(
        self,
        sentences: Sequence[str],
        *,
        prefixes: Sequence[str | None] | None = None,
        constraints: Sequence[Sequence[str] | None] | None = None,
        target_language: str | None = None,
        **changes: Any,
    ) -> None:
        """Raises what `translate` would raise for these, without translating."""
        config = changed_config(self.config, changes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of lines that will be split: in good time
            self._prepare(sentences, prefixes, constraints, target_language, 1, config)

    def _prepare(
        self,
        sentences: Sequence[str],
        prefixes: Sequence[str | None] | None,
        constraints: Sequence[Sequence[str] | None] | None,
        target_language: str | None,
        first_line: int,
        config: DecodingConfig,
    ) -> list[Request]:
        """All that is to be searched, checked."""
        check_is_list(sentences, "sentences")
        segments = segment_lines(
            tag_lines(sentences, self.tokenizer, target_language, first_line=first_line),
            self.tokenizer,
            max_source_length=self.max_source_length,
            over_long=config.over_long,
            first_line=first_line,
        )
        requests = self._requests(segments, sentences, prefixes, constraints, first_line)
        suppressed = suppressed_tokens(self.tokenizer, config)
        check_requests(requests, config, suppressed, self._pieces[1])
        for request in requests:
            request.program_length(config, self._menu)
        return requests

    def _requests(
        self,
        segments: Sequence[Segment],
        sentences: Sequence[str],
        prefixes: Sequence[str | None] | None,
        constraints: Sequence[Sequence[str] | None] | None,
        first_line: int,
    ) -> list[Request]:
        """What is asked for each segment: of a line that was split, the first has the prefix, and
        each phrase goes to the first segment that has its text, or else to the first."""
        check_requested(sentences, prefixes, constraints, first_line)
        requests = []
        of_line: dict[int, list[int]] = {}
        for place, segment in enumerate(segments):
            requests.append(Request(segment.line, segment.inputs, segment.num_unread))
            of_line.setdefault(segment.line, []).append(place)
        for line, places in of_line.items():
            asked = prefixes[line - first_line] if prefixes else None
            if asked and asked.strip():
                prefix = self._write(asked, line, "prefix")
                requests[places[0]] = requests[places[0]]._replace(prefix=prefix)
            for phrase in (constraints[line - first_line] or ()) if constraints else ():
                if not phrase.strip():
                    continue
                tokens = self._write(phrase, line, "constraint")
                home = self._home(phrase, places, requests)
                if tokens not in requests[home].phrases:
                    phrases = (*requests[home].phrases, tokens)
                    requests[home] = requests[home]._replace(phrases=phrases)
        return requests

    def _home(self, phrase: str, places: Sequence[int], requests: Sequence[Request]) -> int:
        """The place among those of a line that gets a phrase."""
        if len(places) > 1:
            for place in places:
                if phrase in self.tokenizer.source.detokenize(requests[place].inputs):
                    return place
        return places[0]

    def _write(self, text: str, line: int, what: str) -> tuple[int, ...]:
        try:
            return self._words.write(text)
        except ValueError as error:
            raise ValueError(f"line {line}: the {what} {error}") from error

    def _find(
        self, requests: Sequence[Request], config: DecodingConfig, *, details: bool
    ) -> list[list[Hypothesis]]:
        """The hypotheses of every request, in order, with all that is asked about them."""
        found = self.search(requests, config)
        if config.strategy == "mbr":
            found = [self._by_utility(drawn, config) for drawn in found]
        if not (details or config.looks_for_faults):
            return found
        found = self._describe(requests, found, config)
        if config.looks_for_faults:
            found = self._flag(requests, found, config)
        if config.retry_flagged:
            again = [place for place, of_one in enumerate(found) if of_one[0].flags]
            changed = retry_config(config)
            for place, second in zip(
                again,
                self._find([requests[place] for place in again], changed, details=True),
                strict=True,
            ):
                if len(second[0].flags or ()) < len(found[place][0].flags or ()):
                    found[place] = second
        if not details:
            found = [[h._replace(details=None) for h in of_one] for of_one in found]
        return found

    def search(self, requests: Sequence[Request], config: DecodingConfig) -> list[list[Hypothesis]]:
        """The hypotheses of every request, in order: `translate` without text before it."""
        suppressed = suppressed_tokens(self.tokenizer, config)
        groups = group_by_length(
            [request.program_length(config, self._menu) for request in requests],
            self._menu,
            tokens_per_batch=config.tokens_per_batch,
            max_rows=config.max_rows_per_batch,
            max_places=max(1, HYPOTHESES_ON_CPU // config.num_live) if self._on_cpu else 0,
            rows_per_place=ROWS_PER_PLACE,
            num_devices=self._num_devices,
            sizes=[len(request.inputs) for request in requests],
            kinds=[request.kind for request in requests],
        )

        def dispatch(group: Group) -> Hypotheses:
            members = [requests[place] for place in group.members]
            return self._dispatch_search(members, group, suppressed, config)

        results: list[list[Hypothesis]] = [[] for _ in requests]
        for group, found in run_ahead(groups, dispatch, window=self._window):
            found = jax.device_get(found)
            for row, place in enumerate(group.members):
                check_finite(float(found.scores[row, 0]), requests[place].line)
                results[place] = self._hypotheses(found, row)
        return results

    def _dispatch_search(
        self,
        requests: Sequence[Request],
        group: Group,
        suppressed: Bool[np.ndarray, " V"],
        config: DecodingConfig,
    ) -> Hypotheses:
        """Start the search for one group; rows left over have limit 0 and end at once."""
        batch = make_batch(requests, group)
        target = self.tokenizer.target
        program = SearchProgram(
            models=self._models,
            beam_size=1 if config.draws else config.beam_size,  # which draws do not have
            num_hypotheses=config.num_live if config.draws else config.num_hypotheses,
            max_target_length=config.length_limit(group.length),
            bos_id=target.bos_id,
            eos_id=target.eos_id,
            pad_id=target.pad_id,
            length_normalization=config.length_normalization,
            # Only the exact rule leaves draws as probable as they are.
            early_stopping=config.early_stopping if config.strategy == "beam" else "exact",
            forced_end=config.forced_end,
            renormalize=config.renormalize,
            batch_slots=group.places,
            mesh=self._mesh,
        )
        wishes = make_search_inputs(
            requests,
            group,
            config,
            suppressed=suppressed,
            words=self._words,
            weights=self._weights,
        )
        return call_cached(
            search_batch,
            self._params,
            batch.inputs,
            batch.inputs_positions,
            batch.inputs_segment_ids,
            wishes,
            program=program,
        )

    def _hypotheses(self, found: Hypotheses, row: int) -> list[Hypothesis]:
        """Those of one row of a fetched batch; score -inf marks an empty place."""
        places = zip(found.tokens[row], found.scores[row], found.lengths[row], strict=True)
        return [
            make_hypothesis(tokens[:length].tolist(), float(score), self.tokenizer.target)
            for tokens, score, length in places
            if score > -np.inf
        ]

    def _by_utility(self, drawn: list[Hypothesis], config: DecodingConfig) -> list[Hypothesis]:
        """The distinct samples that agree best with all."""
        # Not above: for SciPy and sacreBLEU no other search should wait.
        from flaxformer_mt.evaluation import mbr
        from flaxformer_mt.evaluation.metrics import default_tokenize

        texts = [hypothesis.text for hypothesis in drawn]
        tokenize = default_tokenize(self.target_language)
        best = mbr.ranked(texts, config.utility, tokenize=tokenize)[: config.num_hypotheses]
        return [drawn[place]._replace(utility=utility) for place, utility in best]

    def _describe(
        self,
        requests: Sequence[Request],
        found: Sequence[Sequence[Hypothesis]],
        config: DecodingConfig,
    ) -> list[list[Hypothesis]]:
        """With details: teacher-forced over what was found."""
        examples = [
            Example(request.inputs, np.asarray(hypothesis.tokens, np.int32))
            for request, hypotheses in zip(requests, found, strict=True)
            for hypothesis in hypotheses
        ]
        limits = [
            request.limit(config)
            for request, hypotheses in zip(requests, found, strict=True)
            for _ in hypotheses
        ]
        scores = self._score(examples, config, limits=limits, with_attention=True)
        scored = zip(examples, scores, strict=True)
        details = (self._with_details(one, *of_one).details for one, of_one in scored)
        return [
            [hypothesis._replace(details=next(details)) for hypothesis in hypotheses]
            for hypotheses in found
        ]

    def _with_details(
        self, example: Example, score: PairScore, attention: Float[np.ndarray, "T S"] | None
    ) -> PairScore:
        if attention is None:
            return score
        source, target = self._pieces
        details = Details(
            source_tokens=[source[token] for token in example.inputs],
            target_tokens=[target[token] for token in example.targets],
            token_log_probs=score.token_log_probs,
            attention=attention,
            confidence=self.calibration and self.calibration(score.token_log_probs),
        )
        return score._replace(details=details)

    @functools.cached_property
    def _pieces(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The texts of all source and target tokens."""
        return self.tokenizer.source.pieces, self.tokenizer.target.pieces

    def _flag(
        self,
        requests: Sequence[Request],
        found: Sequence[Sequence[Hypothesis]],
        config: DecodingConfig,
    ) -> list[list[Hypothesis]]:
        """With what looks wrong, by source, translation and details."""

        def flag(request: Request, hypothesis: Hypothesis) -> Hypothesis:
            text, tokens, details = hypothesis.text, hypothesis.tokens, hypothesis.details
            at_limit = len(tokens) >= request.limit(config)
            flags = self._faults(request, text, tokens, details, at_limit=at_limit, config=config)
            return hypothesis._replace(flags=flags)

        return [
            [flag(request, hypothesis) for hypothesis in hypotheses]
            for request, hypotheses in zip(requests, found, strict=True)
        ]

    def _with_flags(self, example: Example, score: PairScore, config: DecodingConfig) -> PairScore:
        if not score.tokens:
            return score
        text = self.tokenizer.target.detokenize(score.tokens)
        of_pair = Request(0, example.inputs), text, score.tokens, score.details
        return score._replace(flags=self._faults(*of_pair, at_limit=False, config=config))

    def _faults(
        self,
        request: Request,
        text: str,
        tokens: Sequence[int],
        details: Details | None,
        *,
        at_limit: bool,
        config: DecodingConfig,
    ) -> tuple[Flag, ...]:
        """Of one translation, with that of its source that was not even read."""
        assert details
        flags = check(
            self.tokenizer.source.detokenize(request.inputs),
            request.inputs.tolist(),
            text,
            tokens,
            coverage=details.attention.sum(axis=0),
            at_limit=at_limit,
            detokenize=self.tokenizer.target.detokenize,
            config=config.guard,
        )
        if request.num_unread:
            lost = f"the last {request.num_unread} tokens of the source were not read"
            flags.append(Flag("truncation", lost))
        return tuple(flags)

    def _blank(self, config: DecodingConfig, *, details: bool) -> Hypothesis:
        """What a blank line becomes: all that is asked for is there, and empty."""
        return Hypothesis(
            "",
            [],
            0.0,
            flags=() if config.looks_for_faults else None,
            details=no_details(self.calibration) if details else None,
        )

    def _example(
        self, source: str, target: str | Sequence[int], line: int, config: DecodingConfig
    ) -> Example:
        """A pair as token ids, cut to the limits."""
        inputs = tokenize(source, self.tokenizer.source)
        vocabulary = self.tokenizer.target
        targets = tokenize(target, vocabulary) if isinstance(target, str) else list(target)
        if targets or len(inputs) > 1:  # no tokens: what `translate` gives for a blank line
            check_target_tokens(targets, vocabulary.size, vocabulary.eos_id, line)
        limit, source_eos_id = self.max_source_length, self.tokenizer.source.eos_id
        target_limit = config.max_target_length
        return Example(
            truncate(inputs, limit, source_eos_id, line=line, side="source"),
            truncate(targets, target_limit, vocabulary.eos_id, line=line, side="target"),
        )

    def _score(
        self,
        examples: Sequence[Example],
        config: DecodingConfig,
        *,
        limits: Sequence[int] | None = None,
        with_attention: bool = False,
    ) -> list[tuple[PairScore, Float[np.ndarray, "T S"] | None]]:
        """Score pairs, in order, by square programs: their length holds source and target.

        `limits` are those of the search for each target, if they are not the usual ones.
        """
        limits = limits or [config.length_limit(len(example.inputs)) for example in examples]
        groups = group_by_length(
            [max(len(example.inputs), len(example.targets)) for example in examples],
            length_menu(max(self.max_source_length, config.max_target_length)),
            tokens_per_batch=config.tokens_per_batch,
            max_rows=config.max_rows_per_batch,
            num_devices=self._num_devices,
        )
        alpha = np.float32(config.length_penalty)
        excluded = suppressed_tokens(self.tokenizer, config) if config.renormalize else None
        weights = None if self._weights is None else np.asarray(self._weights, np.float32)

        def dispatch(group: Group) -> Scored:
            shape = BatchShape(group.rows, group.length, group.length)
            members = [examples[place] for place in group.members]
            return call_cached(
                score_batch,
                self._params,
                pad_batch(members, shape),
                alpha,
                weights,
                free_ends(members, [limits[p] for p in group.members], group.rows, config),
                excluded,
                models=self._models,
                length_normalization=config.length_normalization,
                with_attention=with_attention,
                mesh=self._mesh,
            )

        results: dict[int, tuple[PairScore, Float[np.ndarray, "T S"] | None]] = {}
        for group, found in run_ahead(groups, dispatch, window=self._window):
            found = jax.device_get(found)
            for row, place in enumerate(group.members):
                score = float(found.scores[row])
                check_finite(score, line=place + 1)
                tokens = examples[place].targets.tolist()
                of_tokens = found.log_probs[row, : len(tokens)]
                pair = PairScore(score, float(of_tokens.sum()), tokens, of_tokens.tolist())
                attention = None
                if found.attention is not None:
                    shape = len(tokens), len(examples[place].inputs)
                    attention = found.attention[row, : shape[0], : shape[1]]
                results[place] = pair, attention
        return [results[place] for place in range(len(examples))]


def tokenize(text: str, vocabulary: Vocabulary) -> list[int]:
    """EOS alone for a blank text, whatever the vocabulary makes of spaces."""
    return vocabulary.tokenize(text) if text.strip() else [vocabulary.eos_id]


def is_blank(example: Example) -> bool:
    """True where neither side has a token beside EOS: blank, or characters that are dropped."""
    return len(example.inputs) <= 1 and len(example.targets) <= 1


def free_ends(
    examples: Sequence[Example], limits: Sequence[int], rows: int, config: DecodingConfig
) -> Bool[np.ndarray, " B"] | None:
    """Whose EOS costs nothing: that of targets as long as a search lets them be; None = of none."""
    if config.forced_end == "scored":
        return None
    free = np.zeros(rows, bool)
    lengths = [len(example.targets) for example in examples]
    free[: len(examples)] = np.greater_equal(lengths, limits)
    return free
