"""Held-out text: the validation and test sets, in memory."""

import itertools

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.sources.corpora import CorpusConfig, read_corpora
from flaxformer_mt.data.sources.pair import Pair


def read_pairs(config: DataConfig, corpus: CorpusConfig) -> tuple[Pair, ...]:
    """Returns all pairs of a validation or test set; none if the configuration lists no text."""
    languages = config.source_language, config.target_language
    corpora = read_corpora(corpus, config.directory, languages)
    return tuple(itertools.chain.from_iterable(corpora))
