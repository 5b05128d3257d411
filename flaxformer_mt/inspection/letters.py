"""Axis letters for shapes, found by asking the model: which of its sizes does this number follow?

The same model is traced once more with other sizes, no two of them alike. An axis of 2048 numbers
in the real model that has 419 in this one is F, because there F is 419: so the letters are right
where S = T or D = F, too.
"""

import dataclasses
from collections.abc import Mapping

from flaxformer_mt.data.batching.batch import BatchShape
from flaxformer_mt.inspection.program import Shape
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.transformer import Transformer

MEANINGS = {
    "B": "sentences",
    "S": "source tokens",
    "T": "target tokens",
    "D": "model width",
    "N": "heads",
    "G": "heads of keys and values",
    "H": "width of a head",
    "W": "width of a value",
    "F": "feed-forward width",
    "V": "vocabulary",
}
PROBE_SHAPE = BatchShape(rows=101, source_length=103, target_length=107)


def axis_sizes(model: Transformer, shape: BatchShape) -> dict[str, int]:
    """What each letter stands for; G and W only where they differ from N and H."""
    config = model.config
    key_width, value_width = config.head_widths
    sizes = dict(zip("BST", shape, strict=True))
    sizes |= {"D": config.d_model, "N": config.num_heads}
    if config.kv_heads != config.num_heads:
        sizes["G"] = config.kv_heads
    sizes["H"] = key_width
    if value_width != key_width:
        sizes["W"] = value_width
    return sizes | {"F": config.d_ff, "V": model.target_vocab_size}


def probe_of(model: Transformer) -> Transformer:
    """The same model in sizes that tell one axis from another, with one layer a stack."""
    config = _probe_config(model.config)
    return model.clone(config=config, source_vocab_size=421, target_vocab_size=421)


def _probe_config(config: TransformerConfig) -> TransformerConfig:
    key_width, value_width = config.head_widths
    return dataclasses.replace(
        config,
        d_model=2 * 109,  # even, for sinusoids
        num_heads=127 * (config.num_heads // config.kv_heads),
        num_kv_heads=127,
        key_width=2 * 131,  # even, for rotary positions
        value_width=2 * (131 if value_width == key_width else 137),
        d_ff=419,
        max_positions=max(PROBE_SHAPE),
        num_encoder_layers=1,
        num_decoder_layers=1,
    )


def letters_of(shape: Shape, probe_shape: Shape, letters: Mapping[int, str]) -> str:
    """ "[B S D]" for a shape and what it is in the probe; a size without a letter is a number."""
    names = (letters.get(p, str(n)) for n, p in zip(shape, probe_shape, strict=True))
    return f"[{' '.join(names)}]"
