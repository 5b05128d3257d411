"""The sizes and choices of a Transformer, and presets: the paper's models and smaller ones."""

import dataclasses
from collections.abc import Iterator
from typing import Literal, get_args, get_origin, get_type_hints

Norm = Literal["pre", "post"]
Activation = Literal["relu", "gelu", "silu", "geglu", "swiglu"]
Scheme = Literal[
    "sinusoidal", "sinusoidal_half_split", "learned", "relative", "bucketed", "rotary", "none"
]
Dtype = Literal["float32", "bfloat16"]
KernelChoice = Literal["auto", "reference", "cpu", "gpu", "tpu"]
LayerLoop = Literal["unrolled", "scan"]
Remat = Literal["none", "full", "dots"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Sizes and choices of the model. The vocabulary sizes come from the tokenizer."""

    d_model: int = 128
    """Model width D: of embeddings, residual stream and every sub-layer's output."""
    d_ff: int = 256
    """Inner width F of the feed-forward network."""
    num_heads: int = 4
    """Attention heads N."""
    num_kv_heads: int = 0
    """Heads of keys and values, each shared by num_heads / num_kv_heads query heads (grouped-query
    attention; 1: multi-query); 0 = num_heads (the paper)."""
    key_width: int = 0
    """Width of a query or key of one head, d_k; 0 = d_model / num_heads (the paper)."""
    value_width: int = 0
    """Width of a value of one head, d_v; 0 = d_model / num_heads (the paper)."""
    num_encoder_layers: int = 2
    """Encoder layers L."""
    num_decoder_layers: int = 2
    """Decoder layers L."""
    norm: Norm = "post"
    """Normalise after each residual sum (the paper), or before each sub-layer."""
    norm_type: Literal["layer", "rms"] = "layer"
    """Layer normalisation (the paper), or RMSNorm, which only scales."""
    norm_epsilon: float = 1e-6
    """Added to the variance before its square root."""
    positions: Scheme = "sinusoidal"
    """Added to the embeddings: "sinusoidal" (the paper), "sinusoidal_half_split" (all sines first,
    as Marian), "learned". By distance, in self-attention: "relative" (Shaw et al. 2018),
    "bucketed" (T5), "rotary". Or "none"."""
    max_positions: int = 512
    """Number of learned positions: the longest source and target that the model can process."""
    max_distance: int = 0
    """Relative positions: larger distances count as this one (k); 0 = 16. Bucketed: T5's
    `max_distance`: larger distances share the last bucket; 0 = 128."""
    num_position_buckets: int = 32
    """Bucketed positions: number of buckets (half for each direction in the encoder)."""
    local_window: int = 0
    """r: each position attends to itself and to those at most r // 2 away (section 4); 0 = all."""
    activation: Activation = "relu"
    """Of the feed-forward network: "relu" (the paper), "gelu" (exact), "silu", or the gated
    "geglu", "swiglu", which have a third matrix."""
    tie_embeddings: Literal["all", "target", "none"] = "all"
    """"all": source, target and output share one matrix (the paper; needs a shared vocabulary);
    "target": target and output share; "none": three matrices."""
    scale_embeddings: bool = True
    """Multiply embeddings by sqrt(d_model) (section 3.4)."""
    use_bias: bool = True
    """Biases of the linear maps in attention and feed-forward network."""
    output_bias: bool = False
    """A bias on the logits, as in Marian."""
    dropout: float = 0.1
    """Dropout rate of each sub-layer's output, and of embeddings + positions (section 5.4)."""
    attention_dropout: float = 0.0
    """Dropout rate of the attention weights."""
    activation_dropout: float = 0.0
    """Dropout rate inside the feed-forward network."""
    dtype: Dtype = "float32"
    """Type of the matrix products; parameters, softmax, norms and logits stay in float32."""
    kernels: KernelChoice = "auto"
    """Implementation of the operations of `model.kernels.Kernels`: the set for the device ("auto"),
    the plain "reference", or a set by name. It changes speed and rounding, not the model."""
    layer_loop: LayerLoop = "unrolled"
    """Training: "scan" compiles one layer and loops over it. Use it for deep models."""
    remat: Remat = "none"
    """Training: what the backward pass computes again, to save memory: nothing ("none"), the whole
    layer ("full"), or all but the matrix products ("dots")."""

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise ValueError(problem)

    @property
    def distance_limit(self) -> int:
        """`max_distance`, or the usual value of these positions."""
        return self.max_distance or {"bucketed": 128}.get(self.positions, 16)

    @property
    def kv_heads(self) -> int:
        """G: `num_kv_heads`, or all of them."""
        return self.num_kv_heads or self.num_heads

    @property
    def head_widths(self) -> tuple[int, int]:
        """Widths of a key and of a value of one head: (d_k, d_v)."""
        even = self.d_model // self.num_heads
        return self.key_width or even, self.value_width or even


def _problems(config: TransformerConfig) -> Iterator[str]:
    """Yields the reasons why a combination is refused."""
    for name, kind in get_type_hints(TransformerConfig).items():
        if get_origin(kind) is Literal and getattr(config, name) not in get_args(kind):
            choices = ", ".join(get_args(kind))
            yield f"model.{name} must be one of {choices}, got {getattr(config, name)!r}"
    counts = ("d_model", "d_ff", "num_heads", "num_encoder_layers", "num_decoder_layers")
    for name in (*counts, "max_positions"):
        if getattr(config, name) < 1:
            yield f"model.{name} must be at least 1, got {getattr(config, name)}"
    for name in ("num_kv_heads", "key_width", "value_width", "max_distance", "local_window"):
        if getattr(config, name) < 0:
            yield f"model.{name} must not be negative, got {getattr(config, name)}"
    for name in ("dropout", "attention_dropout", "activation_dropout"):
        if not 0 <= getattr(config, name) < 1:
            yield f"model.{name} must be in [0, 1), got {getattr(config, name)}"
    if not config.norm_epsilon > 0:
        yield f"model.norm_epsilon must be positive, got {config.norm_epsilon}"
    if config.d_model % config.num_heads and not (config.key_width and config.value_width):
        yield (
            f"model.d_model ({config.d_model}) must be divisible by model.num_heads "
            f"({config.num_heads}): each head is d_model / num_heads wide, unless both "
            "model.key_width and model.value_width are given"
        )
    if config.num_heads % config.kv_heads:
        yield (
            f"model.num_heads ({config.num_heads}) must be divisible by model.num_kv_heads "
            f"({config.num_kv_heads}): each head of keys and values serves equally many query heads"
        )
    if config.positions.startswith("sinusoidal") and config.d_model % 2:
        yield f"model.d_model must be even for sinusoids, got {config.d_model}"
    if config.positions == "rotary" and config.head_widths[0] % 2:
        yield (
            f"rotary positions rotate pairs of dimensions: the width of a key must be even, got "
            f"{config.head_widths[0]} (model.key_width, or d_model / num_heads)"
        )
    if config.positions == "bucketed":
        # Each direction needs at least two buckets, and the spans must grow towards max_distance.
        buckets, farthest = config.num_position_buckets, config.distance_limit
        if buckets < 4 or buckets % 2:
            yield f"model.num_position_buckets must be even and at least 4, got {buckets}"
        if farthest <= buckets // 2:
            yield (
                f"model.max_distance ({farthest}) must be larger than half of "
                f"model.num_position_buckets ({buckets}), half of which hold one distance each"
            )
    if config.local_window == 1:
        yield "model.local_window=1 lets every position see only itself: use at least 2, or 0"


def preset(name: Literal["tiny", "small", "base", "big"]) -> TransformerConfig:
    """Returns sizes by name: `base` and `big` of the paper (table 3), others for small data."""
    sizes = {
        #         D     F     N   L  dropout
        "tiny": (128, 256, 4, 2, 0.1),
        "small": (256, 1024, 4, 3, 0.1),
        "base": (512, 2048, 8, 6, 0.1),
        "big": (1024, 4096, 16, 6, 0.3),
    }
    if name not in sizes:
        raise ValueError(f"unknown preset {name!r}: choose one of {', '.join(sizes)}")
    d_model, d_ff, num_heads, num_layers, dropout = sizes[name]
    return TransformerConfig(
        d_model=d_model,
        d_ff=d_ff,
        num_heads=num_heads,
        num_encoder_layers=num_layers,
        num_decoder_layers=num_layers,
        dropout=dropout,
    )
