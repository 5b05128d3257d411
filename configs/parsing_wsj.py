"""English constituency parsing, section 6.3, for owners of the Penn Treebank (LDC99T42).

    python examples/parsing.py --treebank PATH/wsj/train --output data/wsj/train
    python examples/parsing.py --treebank PATH/wsj/22 --output data/wsj/valid
    python examples/parsing.py --treebank PATH/wsj/23 --output data/wsj/test
    python -m flaxformer_mt.train --config configs/parsing_wsj.py --workdir runs/wsj
    python examples/parsing.py --workdir runs/wsj < data/wsj/test.words > test.parsed

PATH/wsj/train is a folder with copies of sections 02 to 21. (Links to folders are not followed.)
The first three commands read .mrg files. They write the words of each sentence, and its tree as a
sequence. The last command searches with the `decoding` below.

From the paper: 4 layers, d_model 1024, a vocabulary of 16,000 words, beam 21, length penalty 0.3,
outputs of at most the input's length + 300; all settings but dropout, learning rate and beam as in
its base model. The paper does not state the dropout and the learning rate that it chose; they are
ours. It reports 91.3 F1 on section 23 after training on the treebank alone. This model was not
trained here, because the treebank is not free.
"""

from flaxformer_mt.config import Config
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.translation.config import DecodingConfig

config = Config(
    data=DataConfig(
        directory="data/wsj",
        source_language="words",
        target_language="trees",
        train=CorpusConfig(source=("train.words",), target=("train.trees",)),
        validation=CorpusConfig(source=("valid.words",), target=("valid.trees",)),
        test=CorpusConfig(source=("test.words",), target=("test.trees",)),
        tokenizer=TokenizerConfig(kind="word", vocab_size=16_000),
        max_source_length=150,
        max_target_length=450,
        tokens_per_batch=25_000,
    ),
    model=TransformerConfig(
        d_model=1024,
        d_ff=2048,
        num_heads=8,
        num_encoder_layers=4,
        num_decoder_layers=4,
        dropout=0.3,
    ),
    training=TrainingConfig(num_steps=100_000, warmup_steps=4000, validation_pairs=200),
    decoding=DecodingConfig(
        beam_size=21,
        length_penalty=0.3,
        max_target_length=450,
        target_length_ratio=1.0,
        target_length_margin=300,
    ),
)
