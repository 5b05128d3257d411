"""English-German from several sources, 352,376 pairs: a larger model for one GPU.

    python -m flaxformer_mt.train --config configs/mixed_en_de_gpu.py \
        --workdir runs/mixed_gpu --data.directory PATH/TO/data

The data directory has four folders: `mixed-en-de` (Europarl, manuals and user interfaces of KDE,
the PHP manual, chat), `tatoeba-en-de`, `multi30k` and `newstest-en-de`. The model is `base` in
bfloat16, with dropout 0.3 because there is little text. A shared BPE vocabulary has 16,000 pieces.
A batch has at most 25,000 source and 25,000 target tokens. An epoch has 247 batches, and the run
has 32 epochs. The validation set is Tatoeba's. The test set, newstest2014, is another kind of text:

    python -m flaxformer_mt.evaluate --workdir runs/mixed_gpu
    python -m flaxformer_mt.evaluate --workdir runs/mixed_gpu \
        --source PATH/TO/data/multi30k/test_2016_flickr.en \
        --reference PATH/TO/data/multi30k/test_2016_flickr.de

Not trained yet. An H100 trains a model of this size with 391,000 target tokens/s
(`benchmarks/README.md`). An update has about 23,000 without padding, so 8,000 updates take about 8
minutes, and the compilation of 16 shapes some minutes more (estimated).
"""

import dataclasses

from flaxformer_mt.config import Config
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.model.config import preset
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.translation.config import DecodingConfig

TRAIN = (
    *(
        f"mixed-en-de/{name}.{{}}.xz"
        for name in ("bcontrast-chat", "europarl20k", "kde4-docs", "kde4-ui", "php-docs")
    ),
    "tatoeba-en-de/train.{}.xz",
    "multi30k/train.{}",
)


def corpus(*files: str) -> CorpusConfig:
    """Text files whose names have a place for the language."""
    source, target = (tuple(file.format(language) for file in files) for language in ("en", "de"))
    return CorpusConfig(source=source, target=target)


config = Config(
    data=DataConfig(
        directory="data",
        source_language="en",
        target_language="de",
        train=corpus(*TRAIN),
        validation=corpus("tatoeba-en-de/valid.{}"),
        test=corpus("newstest-en-de/newstest2014.{}"),
        exclude=("validation", "test"),
        tokenizer=TokenizerConfig(vocab_size=16_000, model_type="bpe"),
        max_source_length=128,
        max_target_length=128,
        tokens_per_batch=25_000,
    ),
    model=dataclasses.replace(preset("base"), dropout=0.3, dtype="bfloat16"),
    training=TrainingConfig(
        num_steps=8_000,
        warmup_steps=2_000,
        validate_every=500,
        checkpoint_every=500,
        keep_last=5,
        average_last=5,
    ),
    decoding=DecodingConfig(beam_size=4, length_penalty=0.6),
)
