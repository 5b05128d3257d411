"""Selects and orders the hypotheses of a search."""

from collections.abc import Sequence

from flaxformer_mt.translation.config import DecodingConfig
from flaxformer_mt.translation.results import Hypothesis


def ranked(
    found: Sequence[Hypothesis], config: DecodingConfig, target_language: str
) -> list[Hypothesis]:
    """Returns the hypotheses of one sentence in the order of its strategy, without equal texts.

    Strategy "sample" keeps equal texts: their number estimates a probability.
    """
    if config.strategy == "mbr":
        return _ranked_by_utility(found, config, target_language)
    return list(found) if config.strategy == "sample" else distinct(found)


def distinct(found: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Returns the first hypothesis of each text; others have equal texts but other tokens."""
    first: dict[str, Hypothesis] = {}
    for one in found:
        first.setdefault(one.text, one)
    return list(first.values())


def _ranked_by_utility(
    samples: Sequence[Hypothesis], config: DecodingConfig, target_language: str
) -> list[Hypothesis]:
    """Returns the distinct samples that agree best with all samples."""
    # Imported here, because sacreBLEU would delay every other search.
    from flaxformer_mt.evaluation import mbr
    from flaxformer_mt.evaluation.metrics import default_tokenize

    texts = [sample.text for sample in samples]
    tokenize = default_tokenize(target_language, text=texts)
    best = mbr.ranked(texts, config.utility, tokenize=tokenize)
    return [samples[i]._replace(utility=utility) for i, utility in best[: config.num_hypotheses]]
