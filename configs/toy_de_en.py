"""The toy of many tutorials, German to English: "ich mochte ein bier" -> "i want a beer".

    python examples/toy_de_en.py
    python -m flaxformer_mt.train --config configs/toy_de_en.py --workdir runs/toy

The 24 sentences of toy_de_en.tsv, beside this file, are training text and validation text. The
model memorises them in 60 updates, which take a few seconds. The first command trains the model,
translates with it and prints its attention matrices. The second one only trains it.
"""

from pathlib import Path

from flaxformer_mt.config import Config
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.translation.config import DecodingConfig

_SENTENCES = CorpusConfig(pairs=("toy_de_en.tsv",))

config = Config(
    data=DataConfig(
        directory=str(Path(__file__).parent),
        source_language="de",
        target_language="en",
        train=_SENTENCES,
        validation=_SENTENCES,
        tokenizer=TokenizerConfig(kind="word", vocab_size=100),
        max_source_length=8,
        max_target_length=8,
        tokens_per_batch=120,
        num_buckets=1,
    ),
    model=TransformerConfig(
        d_model=64,
        d_ff=128,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        dropout=0.0,
    ),
    training=TrainingConfig(
        num_steps=60,
        learning_rate=5e-3,
        warmup_steps=20,
        validate_every=0,
        validation_pairs=24,
        checkpoint_every=60,
    ),
    decoding=DecodingConfig(beam_size=1, max_target_length=8),
)
