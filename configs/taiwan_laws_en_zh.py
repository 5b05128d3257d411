"""Laws of Taiwan, English to Traditional Chinese: 230,318 pairs of long sentences.

    python -m flaxformer_mt.train --config configs/taiwan_laws_en_zh.py \
        --workdir runs/laws --data.directory PATH/TO/taiwan-laws-en-zh

Chinese is kept as it is written (`normalization="identity"`): SentencePiece's usual normalisation
would make its punctuation Western. Characters beyond 99.95 % of the text are spelt as bytes.

Not measured yet.
"""

from flaxformer_mt.config import Config
from flaxformer_mt.data.pipeline import DataConfig
from flaxformer_mt.data.sources import CorpusConfig
from flaxformer_mt.data.tokenizer import TokenizerConfig
from flaxformer_mt.decoding.config import DecodingConfig
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.training.config import TrainingConfig

config = Config(
    data=DataConfig(
        directory="data/taiwan-laws-en-zh",
        source_language="en",
        target_language="zh",
        train=CorpusConfig(source=("train.en.xz",), target=("train.zh.xz",)),
        validation=CorpusConfig(source=("valid.en",), target=("valid.zh",)),
        tokenizer=TokenizerConfig(
            vocab_size=8000, character_coverage=0.9995, normalization="identity", max_lines=20_000
        ),
        max_source_length=128,
        max_target_length=128,
        tokens_per_batch=4096,
        num_buckets=8,
    ),
    model=TransformerConfig(
        d_model=192, d_ff=768, num_heads=6, num_encoder_layers=3, num_decoder_layers=3
    ),
    training=TrainingConfig(
        num_steps=4000,
        learning_rate=3e-3,
        warmup_steps=800,
        validate_every=1000,
        validation_pairs=200,
        checkpoint_every=200,
        average_last=5,
    ),
    decoding=DecodingConfig(beam_size=4, length_penalty=1.0),
)
