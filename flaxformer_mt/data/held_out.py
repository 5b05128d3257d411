"""Held-out text: the validation and test sets, in memory."""

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.sources.corpora import CorpusConfig, open_corpus
from flaxformer_mt.data.sources.pair import Pair


def read_pairs(config: DataConfig, corpus: CorpusConfig) -> tuple[Pair, ...]:
    """Returns all pairs of a validation or test set; none if the configuration lists no text."""
    sources = open_corpus(
        corpus,
        directory=config.directory,
        source_language=config.source_language,
        target_language=config.target_language,
    ).sources
    return tuple(source[index] for source in sources for index in range(len(source)))
