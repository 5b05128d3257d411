"""Your own parallel text: a small model that two CPU cores or any GPU can train.

    python -m flaxformer_mt.train --config configs/own_text.py --workdir runs/mine \
        --data.source-language en --data.target-language de \
        --data.train.source train.en --data.train.target train.de \
        --data.validation.source valid.en --data.validation.target valid.de

For more than a million pairs, or on an accelerator, use the sizes of `preset("base")`:
`--model.d-model 512 --model.d-ff 2048 --model.num-heads 8 --model.num-encoder-layers 6
--model.num-decoder-layers 6 --data.tokens-per-batch 25000 --training.num-steps 100000`.
For about 30,000 pairs, copy `configs/low_resource.py`.
"""

from flaxformer_mt.config import Config
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.model.config import preset
from flaxformer_mt.training.config import TrainingConfig

config = Config(
    data=DataConfig(tokenizer=TokenizerConfig(vocab_size=8000), num_buckets=10),
    model=preset("small"),
    training=TrainingConfig(
        num_steps=20_000,
        learning_rate=1e-3,
        warmup_steps=2000,
        validate_every=1000,
        checkpoint_every=250,
        average_last=5,
    ),
)
