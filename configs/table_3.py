"""Table 3 of the paper, rows A to E, and later positions and norms.

    python -m flaxformer_mt.sweep --config configs/table_3.py --workdir runs/table_3

This command trains every row of `variants`, scaled down to the demo text, and writes table.md.
`paper_variants` has the rows at the paper's scale, on WMT 2014 English-German:

    python -m flaxformer_mt.sweep --config configs/table_3.py --variants paper_variants \
        --workdir runs/table_3_wmt14

The table gives perplexity and BLEU of 300 validation pairs after 600 updates, far from convergence,
and target tokens/s of training. The sweep took 25 minutes on two CPU cores, which other jobs used
too.

    variant                    params  perpl.   BLEU  tokens/s
    base                       297,472    2.40   43.1    11,383
    A heads 1                  297,472    2.53   38.1    17,623
    A heads 4                  297,472    2.29   42.2    14,332
    A heads 16                 297,472    2.58   38.4    10,518
    A heads 32                 297,472    3.20   27.0     7,009
    B d_k 2                    260,032    3.27   27.4    13,370
    B d_k 4                    272,512    2.59   39.2    12,862
    C layers 1                 180,736    3.05   31.3    21,738
    C layers 3                 414,208    2.98   30.9     9,041
    C layers 4                 530,944    5.47    6.7     7,125
    C d_model 32               124,672    7.97    7.3    15,926
    C d_model 128              790,528    1.60   60.4     8,662
    C d_ff 128                 231,424    2.60   37.0    14,465
    C d_ff 512                 429,568    2.17   45.1    11,741
    D dropout 0.0              297,472    1.99   56.7    13,824
    D dropout 0.2              297,472    3.69   24.5    12,806
    D smoothing 0.0            297,472    2.23   42.7    12,501
    D smoothing 0.2            297,472    2.69   40.9    13,975
    E learned positions        363,008    2.43   41.7    12,336
    relative positions         299,584    2.01   46.9     6,935
    bucketed positions         298,496    2.55   37.1    13,426
    rotary positions           297,472    2.12   42.6    12,520
    no positions               297,472    2.65   37.5    13,432
    pre-norm                   297,728    2.46   43.3    13,085
    pre-norm, RMSNorm          296,960    2.50   40.2    13,550
    SwiGLU, d_ff 2/3           297,296    2.12   46.1    12,541
    keys and values 2 heads    260,032    3.31   26.3    15,666

As in the paper, one head and very many heads are worse than 4 or 8 (A), small keys hurt (B), wider
models are better (C), and learned positions are as good as sinusoids (E). Unlike in the paper, 32
heads are worse than one, no dropout is best, and more than two layers hurt: 600 updates are not
enough for them.
"""

import dataclasses
from typing import Any

from flaxformer_mt.config import Config, load_config
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.training.config import TrainingConfig


def with_model(config: Config, **changes: Any) -> Config:
    """Returns `config` with other fields of its model."""
    return dataclasses.replace(config, model=dataclasses.replace(config.model, **changes))


def with_layers(config: Config, count: int) -> Config:
    """Returns `config` with `count` layers in the encoder and in the decoder."""
    return with_model(config, num_encoder_layers=count, num_decoder_layers=count)


def with_smoothing(config: Config, amount: float) -> Config:
    """Returns `config` with another label smoothing."""
    training = dataclasses.replace(config.training, label_smoothing=amount)
    return dataclasses.replace(config, training=training)


def rows(base: Config, *, depths: tuple[int, ...]) -> dict[str, Config]:
    """Returns the paper's changes to its base model, in proportion, and later variants.

    In rows A the number of heads changes, but not the sum of their widths. In rows B only keys and
    queries become narrower.
    """
    model = base.model
    d_k = model.d_model // model.num_heads
    heads = (count for count in (1, 4, 16, 32) if model.d_model % count == 0)
    return {
        "base": base,
        **{f"A heads {count}": with_model(base, num_heads=count) for count in heads},
        **{f"B d_k {width}": with_model(base, key_width=width) for width in (d_k // 4, d_k // 2)},
        **{f"C layers {count}": with_layers(base, count) for count in depths},
        **{
            f"C d_model {width}": with_model(base, d_model=width)
            for width in (model.d_model // 2, model.d_model * 2)
        },
        **{
            f"C d_ff {width}": with_model(base, d_ff=width)
            for width in (model.d_ff // 2, model.d_ff * 2)
        },
        **{f"D dropout {rate}": with_model(base, dropout=rate) for rate in (0.0, 0.2)},
        **{f"D smoothing {amount}": with_smoothing(base, amount) for amount in (0.0, 0.2)},
        "E learned positions": with_model(base, positions="learned"),
        "relative positions": with_model(base, positions="relative"),
        "bucketed positions": with_model(base, positions="bucketed"),
        "rotary positions": with_model(base, positions="rotary"),
        "no positions": with_model(base, positions="none"),
        "pre-norm": with_model(base, norm="pre"),
        "pre-norm, RMSNorm": with_model(base, norm="pre", norm_type="rms"),
        "SwiGLU, d_ff 2/3": with_model(base, activation="swiglu", d_ff=model.d_ff * 2 // 3),
        "keys and values 2 heads": with_model(base, num_kv_heads=2),
    }


config = Config(
    data=DataConfig(
        train=CorpusConfig(pairs=("demo:train:40000",)),
        validation=CorpusConfig(pairs=("demo:validation:300",)),
        tokenizer=TokenizerConfig(vocab_size=1000),
        max_source_length=48,
        max_target_length=48,
        tokens_per_batch=1024,
        num_buckets=2,
    ),
    model=TransformerConfig(d_model=64, d_ff=256, num_heads=8),
    training=TrainingConfig(
        num_steps=600,
        learning_rate=4e-3,
        warmup_steps=150,
        validate_every=0,
        validation_pairs=300,
        checkpoint_every=600,
    ),
)
variants = rows(config, depths=(1, 3, 4))

paper = load_config("configs/wmt14_en_de_base.py")
big = load_config("configs/wmt14_en_de_big.py")
paper_variants = rows(paper, depths=(2, 4, 8)) | {"big": big}
