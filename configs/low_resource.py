"""A small corpus of about 30,000 pairs: a model that two CPU cores train in half an hour.

    python -m flaxformer_mt.train --config configs/low_resource.py --workdir runs/small \
        --data.source-language en --data.target-language de \
        --data.train.source train.en --data.train.target train.de \
        --data.validation.source valid.en --data.validation.target valid.de

On 30,000 random pairs of Tatoeba, English-German, it reaches 30.66 BLEU on 1,000 other pairs after
13 epochs. `docs/own_data.md` adds back-translated text, which gives 34.6 BLEU after 9,000 updates
on a GPU. `configs/multi30k_en_de_r_drop.py` trains a slightly smaller model with R-Drop.
"""

from flaxformer_mt.config import Config
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.translation.config import DecodingConfig

config = Config(
    data=DataConfig(
        tokenizer=TokenizerConfig(vocab_size=8000),
        max_source_length=128,  # a batch has at least 8 rows: 8 * 128 = tokens_per_batch
        max_target_length=128,
        tokens_per_batch=1024,
        num_buckets=5,
    ),
    model=TransformerConfig(
        d_model=128,
        d_ff=512,
        num_heads=4,
        num_encoder_layers=4,
        num_decoder_layers=4,
        dropout=0.1,
    ),
    training=TrainingConfig(
        num_steps=5000,
        learning_rate=3e-3,
        warmup_steps=1000,
        validate_every=1000,
        checkpoint_every=250,
        average_last=5,
    ),
    decoding=DecodingConfig(beam_size=5, length_penalty=1.0),
)
