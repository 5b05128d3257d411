"""Your own parallel text: a small model that two CPU cores or any GPU can train.

    python -m flaxformer_mt.train --config configs/own_text.py --workdir runs/mine \
        --data.source-language en --data.target-language de \
        --data.train.source train.en --data.train.target train.de \
        --data.validation.source valid.en --data.validation.target valid.de

The model and its training are those of `configs/mixed_en_de.py`, which has scores for 350,000
pairs. On a CPU with bfloat16 instructions, and on accelerators, add `--model.dtype bfloat16`.
CTranslate2 runs such a model (`docs/interop.md`). Marian needs `--model.norm post --model.positions
sinusoidal`.

For about 30,000 pairs, copy `configs/low_resource.py`. For more than a million pairs, copy
`configs/wmt14_en_de_base.py`, the paper's model, which needs an accelerator.
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
        batching="pack",
        tokens_per_batch=4096,
    ),
    model=TransformerConfig(
        d_model=192,
        d_ff=768,
        num_heads=4,
        num_encoder_layers=6,
        num_decoder_layers=2,
        dropout=0.1,
        norm="pre",
        positions="rotary",
    ),
    training=TrainingConfig(
        num_steps=6500,
        optimizer="muon",
        learning_rate=6e-3,
        warmup_steps=600,
        schedule="cosine",
        validate_every=1000,
        checkpoint_every=250,
        average_last=5,
    ),
    decoding=DecodingConfig(beam_size=4, length_penalty=1.0),
)
