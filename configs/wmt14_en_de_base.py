"""WMT 2014 English-German, the `base` model of "Attention Is All You Need" (table 2).

    python -m flaxformer_mt.train --config configs/wmt14_en_de_base.py --workdir runs/base

Data: Europarl v7, Common Crawl and News Commentary v9, the text of TFDS's `wmt14_translate/de-en`.
The first run downloads it from statmt.org (1.7 GB, checked by SHA-256; docs/corpora.md). The
validation set is newstest2013 and the test set newstest2014 (wmt14/full, 3,003 pairs), through
sacreBLEU. The shared BPE vocabulary has 37,000 pieces, as in section 5.1. Steps, batches,
warm-up, averaging and search are the paper's (sections 5 and 6.1): 25,000 source and 25,000 target
tokens a batch, 100,000 updates, the mean of the last 5 checkpoints (one in 1,500 updates), beam 4,
alpha 0.6, at most 50 tokens more than the source has.

The paper reports 27.3 BLEU (tokenised, newstest2014). Not measured yet.
"""

from flaxformer_mt.config import Config
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.model.config import preset
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.translation.config import DecodingConfig

config = Config(
    data=DataConfig(
        source_language="en",
        target_language="de",
        train=CorpusConfig(pairs=("wmt:europarl_v7", "wmt:commoncrawl", "wmt:newscommentary_v9")),
        validation=CorpusConfig(pairs=("sacrebleu:wmt13",)),
        test=CorpusConfig(pairs=("sacrebleu:wmt14/full",)),
        tokenizer=TokenizerConfig(vocab_size=37_000, model_type="bpe", max_lines=2_000_000),
        tokens_per_batch=25_000,
    ),
    model=preset("base"),
    training=TrainingConfig(
        num_steps=100_000,
        warmup_steps=4000,
        validate_every=5000,
        checkpoint_every=1500,
        keep_last=5,
        average_last=5,
    ),
    decoding=DecodingConfig(
        beam_size=4, length_penalty=0.6, target_length_ratio=1.0, target_length_margin=50
    ),
)
