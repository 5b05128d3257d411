"""Validation during and after training: loss, BLEU and sample translations."""

import dataclasses
import math
from typing import Any

import jax
import numpy as np

from flaxformer_mt.config import Config
from flaxformer_mt.data.pipeline import Data
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.evaluation import metrics
from flaxformer_mt.inference.devices import on_all_devices
from flaxformer_mt.inference.ensemble import params_in_dtype
from flaxformer_mt.model.initialization import Params
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.runtime.processes import map_over_processes
from flaxformer_mt.runtime.sharding import BatchPlacement, copier
from flaxformer_mt.training.reporting import Sample
from flaxformer_mt.training.step import EvalStep, Metrics
from flaxformer_mt.translation.config import SAMPLING
from flaxformer_mt.translation.translator import Translator

NUM_SAMPLES = 5


@dataclasses.dataclass(frozen=True)
class Validation:
    """Computes the validation scores of a run's parameters."""

    config: Config
    placement: BatchPlacement
    data: Data
    model: Transformer
    eval_step: EvalStep

    def __call__(self, params: Params) -> tuple[dict[str, float], list[Sample]]:
        """Returns loss and perplexity of the validation set, BLEU of some pairs, and samples.

        All processes must call it; each translates a part, and all get the same scores.
        """
        batches = map(self.placement, self.data.validation_batches(self.placement.rows))
        losses = jax.device_get([self.eval_step(params, batch) for batch in batches])
        scores: dict[str, float] = {}
        if losses:  # empty if every pair is too long
            nll = average_metrics(losses)["nll"]
            scores = {"loss": nll, "perplexity": float(np.exp(nll))}
        samples: list[Sample] = []
        pairs = self._sample()
        if pairs:
            translator = self._translator(params)
            beam_size = self.config.training.validation_beam_size
            bleu, samples = translate_and_score(translator, pairs, beam_size=beam_size)
            scores["bleu"] = bleu.value
        return scores, samples

    def _sample(self) -> tuple[Pair, ...]:
        """Returns the pairs for BLEU: the first ones, or evenly spaced ones of all languages."""
        pairs, count = self.data.validation, self.config.training.validation_pairs
        if not self.config.data.validation.target_languages or len(pairs) <= count:
            return pairs[:count]
        return tuple(pairs[i * len(pairs) // count] for i in range(count))

    def _translator(self, params: Params) -> Translator:
        """Returns a translator with the whole parameters on each device of this process.

        With default settings, it compiles the same programs as `Translator.load`, which can then
        reuse them.
        """
        # One translation, not sampled: BLEU decides which checkpoints are the best.
        options: dict[str, Any] = {
            "strategy": "beam",
            "num_hypotheses": 1,
            "flag_faults": False,
            **SAMPLING,
        }
        decoding = dataclasses.replace(self.config.decoding, **options)
        whole = jax.tree.map(lambda x: x.addressable_data(0), copier(self.placement.mesh)(params))
        return Translator(
            self.model,
            on_all_devices(params_in_dtype(whole, self.model.config.dtype)),
            self.data.tokenizer,
            decoding,
            max_source_length=self.config.data.max_source_length,
            source_language=self.config.data.source_language,
        )


def average_metrics(window: list[Metrics]) -> dict[str, float]:
    """Returns means per target token over several batches, their tokens and mean gradient norm.

    Skipped steps count only in "skipped". This key exists only if there are any.
    """
    done = [m for m in window if not m.skipped]
    skipped = {"skipped": float(len(window) - len(done))} if len(done) < len(window) else {}
    if not done:
        return {"loss": math.nan, "target_tokens": 0.0} | skipped
    tokens = np.array([m.target_tokens for m in done])
    total = max(float(tokens.sum()), 1.0)
    averages = {
        "loss": float(np.dot([m.loss for m in done], tokens)) / total,
        "nll": float(np.dot([m.nll for m in done], tokens)) / total,
        "grad_norm": float(np.mean([m.grad_norm for m in done])),
        "target_tokens": total,
    }
    return averages | skipped


def translate_and_score(
    translator: Translator, pairs: tuple[Pair, ...], *, beam_size: int | None = None
) -> tuple[metrics.MetricScore, list[Sample]]:
    """Returns BLEU of the translations of `pairs`, and the first few translations.

    All processes must call it; each translates a part.
    """
    num_hypotheses = 1 if beam_size is not None else None
    sources = [pair.source for pair in pairs]

    def translate(mine: slice) -> list[str]:
        found = translator.translate(
            sources[mine], beam_size=beam_size, num_hypotheses=num_hypotheses
        )
        return [hypotheses[0].text for hypotheses in found]

    translations = map_over_processes(len(sources), translate)
    references = [pair.target for pair in pairs]
    tokenize = metrics.default_tokenize(references)
    bleu, _ = metrics.CorpusScores(tokenize=tokenize).add(translations, references).scores()
    texts = zip(sources, references, translations, strict=True)
    return bleu, [Sample(*text) for text in texts][:NUM_SAMPLES]
