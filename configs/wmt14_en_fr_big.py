"""WMT 2014 English-French, the `big` model of "Attention Is All You Need" (table 2).

    python -m flaxformer_mt.train --config configs/wmt14_en_fr_big.py --workdir runs/fr_big

Data: Europarl v7, Common Crawl, UN, News Commentary v9 and Giga French-English, the text of TFDS's
`wmt14_translate/fr-en`. The first run downloads it from statmt.org (6.6 GB, checked by SHA-256;
docs/corpora.md). The validation set is newstest2013 and the test set newstest2014 (wmt14/full,
3,003 pairs), through sacreBLEU. The vocabulary has 32,000 pieces, as in section 5.1. Steps,
batches, warm-up, averaging and search are the paper's (sections 5 and 6.1): 25,000 source and
25,000 target tokens a batch, 300,000 updates, the mean of the last 20 checkpoints, beam 4, alpha
0.6, at most 50 tokens more than the source has. The paper does not state how often it saved the big
model. Here a checkpoint is saved every 1,000 updates. Dropout is 0.1 instead of 0.3.

The paper reports 41.8 BLEU (tokenised, newstest2014). Not measured yet.
"""

import dataclasses

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
        target_language="fr",
        train=CorpusConfig(
            pairs=(
                "wmt:europarl_v7",
                "wmt:commoncrawl",
                "wmt:multiun",
                "wmt:newscommentary_v9",
                "wmt:gigafren",
            )
        ),
        validation=CorpusConfig(pairs=("sacrebleu:wmt13",)),
        test=CorpusConfig(pairs=("sacrebleu:wmt14/full",)),
        tokenizer=TokenizerConfig(vocab_size=32_000, model_type="bpe", max_lines=2_000_000),
        tokens_per_batch=25_000,
    ),
    model=dataclasses.replace(preset("big"), dropout=0.1),
    training=TrainingConfig(
        num_steps=300_000,
        warmup_steps=4000,
        validate_every=5000,
        checkpoint_every=1000,
        keep_last=20,
        average_last=20,
    ),
    decoding=DecodingConfig(
        beam_size=4, length_penalty=0.6, target_length_ratio=1.0, target_length_margin=50
    ),
)
