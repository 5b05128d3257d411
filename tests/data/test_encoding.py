"""The text to learn a vocabulary from: pairs from everywhere, the same in every run."""

import dataclasses
import functools

from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.encoding import learning_text, scan_block
from flaxformer_mt.data.prepared.manifest import training_streams
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.sources.quarantine import CorpusScan
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.data.worker_processes import Workers


def chosen(config: DataConfig) -> tuple[list[Pair], bool]:
    """Returns the pairs to learn from, and whether they are all."""
    streams, scans, readers = training_streams(config), [], []
    for stream in streams:
        scans.append(CorpusScan(name=stream.name))
        readers.append(functools.partial(stream.blocks, 16))
        for block in readers[-1]():
            found = scan_block(block, exclude={})
            scans[-1].add(found.num_records, found.num_good, found.bad)
    text = learning_text(config, readers, scans, {}, Workers(1))
    assert list(text.pairs()) == list(text.pairs())
    return list(text.pairs()), text.is_whole


def test_max_lines_takes_good_pairs_from_everywhere(tmp_path):
    pairs = [Pair(f"word {i}", f"Wort {i}") for i in range(300)]
    lines = [f"{pair.source}\t{pair.target}\n" for pair in pairs]
    lines[5:5] = ["no tab\n", " \tblank\n"]
    (tmp_path / "a.tsv").write_text("".join(lines[:202]))
    (tmp_path / "b.tsv").write_text("".join(lines[202:]))
    config = DataConfig(
        directory=str(tmp_path),
        train=CorpusConfig(pairs=("a.tsv", "b.tsv")),
        tokenizer=TokenizerConfig(max_lines=30),
    )
    some, is_whole = chosen(config)
    places = [pairs.index(pair) for pair in some]
    assert len(places) == 30 and places == sorted(set(places)) and not is_whole
    assert places[0] < 100 and places[-1] >= 200
    for tokenizer in (TokenizerConfig(max_lines=0), TokenizerConfig(kind="word", max_lines=30)):
        assert chosen(dataclasses.replace(config, tokenizer=tokenizer)) == (pairs, True)
