"""The Transformer: encoder, decoder and the model of both (section 3, figure 1).

Training reads a whole target at once (`__call__`, teacher forcing); translation runs `encode`
and `init_cache` once for each sentence and then `decode_step` once for each token. Both use the
same parameters through the same sub-layers, and give the same logits.
"""

import dataclasses
from typing import Literal

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.model.attention import KeysValues, MultiHeadAttention
from flaxformer_mt.model.cache import Cache
from flaxformer_mt.model.dropout import Dropout
from flaxformer_mt.model.layers import Embedding, FeedForward, LayerNorm, Linear, Norm, Residual
from flaxformer_mt.model.masks import causal_mask, segment_mask
from flaxformer_mt.model.positions import add_sinusoids


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Sizes and choices of the model. The vocabulary sizes come from the tokenizer."""

    d_model: int = 128
    """Model width D: of embeddings, residual stream and every sub-layer's output."""
    d_ff: int = 256
    """Inner width F of the feed-forward network."""
    num_heads: int = 4
    """Attention heads N; d_model must be divisible by it."""
    num_encoder_layers: int = 2
    """Encoder layers L."""
    num_decoder_layers: int = 2
    """Decoder layers L."""
    norm: Norm = "post"
    """Layer normalisation after each residual sum (the paper), or before each sub-layer."""
    tie_embeddings: Literal["all", "target", "none"] = "all"
    """"all": source, target and output share one matrix (the paper; needs a shared vocabulary);
    "target": target and output share; "none": three matrices."""
    dropout: float = 0.1
    """On each sub-layer's output and on the sums of embeddings and positions (section 5.4)."""
    attention_dropout: float = 0.0
    """On the attention weights."""
    activation_dropout: float = 0.0
    """On the activations inside the feed-forward network."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the matrix products; parameters, softmax, norms and logits stay in float32."""

    def __post_init__(self) -> None:
        sizes = ("d_model", "d_ff", "num_heads", "num_encoder_layers", "num_decoder_layers")
        for name in sizes:
            if getattr(self, name) < 1:
                raise ValueError(f"model.{name} must be at least 1, got {getattr(self, name)}")
        if self.d_model % self.num_heads:
            raise ValueError(
                f"model.d_model ({self.d_model}) must be divisible by model.num_heads "
                f"({self.num_heads}): each head is d_model / num_heads wide"
            )
        if self.d_model % 2:
            raise ValueError(f"model.d_model must be even for sinusoids, got {self.d_model}")
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"model.{name} must be in [0, 1), got {getattr(self, name)}")


def preset(name: Literal["tiny", "small", "base", "big"]) -> TransformerConfig:
    """Sizes by name: `base` and `big` are the paper's (table 3); the others suit small data."""
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


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network (section 3.1)."""

    config: TransformerConfig

    def setup(self) -> None:
        self.self_attention, self.attention_residual = attention_sublayer(self.config)
        self.feed_forward, self.feed_forward_residual = feed_forward_sublayer(self.config)

    def __call__(
        self, x: Float[Array, "B S D"], mask: Bool[Array, "B 1 S S"], *, deterministic: bool
    ) -> Float[Array, "B S D"]:
        y = self.attention_residual.before(x)
        y = self.self_attention(
            y, self.self_attention.keys_values(y), mask, deterministic=deterministic
        )
        x = self.attention_residual.after(x, y, deterministic=deterministic)
        y = self.feed_forward(self.feed_forward_residual.before(x), deterministic=deterministic)
        return self.feed_forward_residual.after(x, y, deterministic=deterministic)


class DecoderLayer(nn.Module):
    """Self-attention to the left, attention to the source, feed-forward network (section 3.1)."""

    config: TransformerConfig

    def setup(self) -> None:
        self.self_attention, self.self_residual = attention_sublayer(self.config)
        self.source_attention, self.source_residual = attention_sublayer(self.config)
        self.feed_forward, self.feed_forward_residual = feed_forward_sublayer(self.config)

    def __call__(
        self,
        x: Float[Array, "B T D"],
        mask: Bool[Array, "B 1 T T"],
        memory: Float[Array, "B S D"],
        source_mask: Bool[Array, "B 1 T S"],
        *,
        deterministic: bool,
    ) -> Float[Array, "B T D"]:
        """All T positions at once (training)."""
        y = self.self_residual.before(x)
        y = self.self_attention(
            y, self.self_attention.keys_values(y), mask, deterministic=deterministic
        )
        x = self.self_residual.after(x, y, deterministic=deterministic)
        source = self.source_keys_values(memory)
        return self._read_source(x, source, source_mask, deterministic=deterministic)

    def source_keys_values(self, memory: Float[Array, "B S D"]) -> KeysValues:
        """This layer's keys and values of the encoder's output: each [B N S H]."""
        return self.source_attention.keys_values(memory)

    def step(
        self,
        x: Float[Array, "B K D"],
        past: KeysValues,
        index: Int[Array, ""],
        source: KeysValues,
        source_mask: Bool[Array, "B 1 1 S"],
    ) -> tuple[Float[Array, "B K D"], KeysValues]:
        """One new position of each of K hypotheses (translation); returns the longer past."""
        y, past = self.self_attention.step(self.self_residual.before(x), past, index)
        x = self.self_residual.after(x, y, deterministic=True)
        # The K hypotheses of a sentence stand where the T queries stood: all look at one source.
        return self._read_source(x, source, source_mask, deterministic=True), past

    def _read_source(
        self,
        x: Float[Array, "B T D"],
        source: KeysValues,
        source_mask: Bool[Array, "B 1 #T S"],
        *,
        deterministic: bool,
    ) -> Float[Array, "B T D"]:
        y = self.source_residual.before(x)
        y = self.source_attention(y, source, source_mask, deterministic=deterministic)
        x = self.source_residual.after(x, y, deterministic=deterministic)
        y = self.feed_forward(self.feed_forward_residual.before(x), deterministic=deterministic)
        return self.feed_forward_residual.after(x, y, deterministic=deterministic)


def attention_sublayer(config: TransformerConfig) -> tuple[MultiHeadAttention, Residual]:
    """An attention sub-layer and its residual wrapper."""
    attention = MultiHeadAttention(
        num_heads=config.num_heads,
        d_model=config.d_model,
        dropout=config.attention_dropout,
        dtype=jnp.dtype(config.dtype),
    )
    return attention, Residual(config.norm, config.dropout)


def feed_forward_sublayer(config: TransformerConfig) -> tuple[FeedForward, Residual]:
    """A feed-forward sub-layer and its residual wrapper."""
    network = FeedForward(config.d_ff, config.activation_dropout, jnp.dtype(config.dtype))
    return network, Residual(config.norm, config.dropout)


def shift_right(
    targets: Int[Array, "B T"], positions: Int[Array, "B T"], bos_id: int
) -> Int[Array, "B T"]:
    """What the decoder reads while it predicts `targets`: each sentence one later, BOS first.

    A sentence starts where its position is 0, so that in a packed row every sentence sees BOS
    first, as it will in translation, and never the end of its neighbour.
    """
    shifted = jnp.pad(targets[:, :-1], ((0, 0), (1, 0)))  # [B T]
    return jnp.where(positions == 0, bos_id, shifted)


class Transformer(nn.Module):
    """Encoder, decoder and embeddings.

    Attributes:
      config: sizes and choices.
      source_vocab_size: V of the source; with tie_embeddings "all" equal to that of the target.
      target_vocab_size: V of the target.
      bos_id: the token that starts every target.
    """

    config: TransformerConfig
    source_vocab_size: int
    target_vocab_size: int
    bos_id: int

    def setup(self) -> None:
        config = self.config
        dtype = jnp.dtype(config.dtype)
        self.target_embedding = Embedding(self.target_vocab_size, config.d_model, dtype)
        if config.tie_embeddings == "all":
            if self.source_vocab_size != self.target_vocab_size:
                raise ValueError(
                    f"model.tie_embeddings='all' needs one vocabulary for both languages, got "
                    f"{self.source_vocab_size} source and {self.target_vocab_size} target tokens: "
                    "use --data.tokenizer.shared True, or --model.tie-embeddings target"
                )
        else:
            self.source_embedding = Embedding(self.source_vocab_size, config.d_model, dtype)
        if config.tie_embeddings == "none":
            self.output = Linear(
                (config.d_model, self.target_vocab_size),
                ("embed", "vocab"),
                use_bias=False,
                dtype=dtype,
            )
        self.drop = Dropout(config.dropout)
        self.encoder = [EncoderLayer(config) for _ in range(config.num_encoder_layers)]
        self.decoder = [DecoderLayer(config) for _ in range(config.num_decoder_layers)]
        if config.norm == "pre":  # the last sums have no sub-layer after them to normalise them
            self.encoder_norm = LayerNorm()
            self.decoder_norm = LayerNorm()

    def __call__(
        self,
        inputs: Int[Array, "B S"],
        targets: Int[Array, "B T"],
        inputs_positions: Int[Array, "B S"],
        targets_positions: Int[Array, "B T"],
        inputs_segment_ids: Int[Array, "B S"],
        targets_segment_ids: Int[Array, "B T"],
        *,
        deterministic: bool = True,
    ) -> Float[Array, "B T V"]:
        """Logits of every target token given the source and the target tokens before it.

        Args:
          inputs: source tokens; positions and segment ids as in `data.batch.Batch`.
          targets: target tokens, EOS inside; shifted right here.
          deterministic: False switches dropout on and needs `rngs={"dropout": key}`.

        Returns:
          float32 logits; position t predicts targets[:, t].
        """
        memory = self.encode(
            inputs, inputs_positions, inputs_segment_ids, deterministic=deterministic
        )
        mask = segment_mask(targets_segment_ids, targets_segment_ids)
        mask = mask & causal_mask(targets.shape[1])  # [B 1 T T]
        source_mask = segment_mask(targets_segment_ids, inputs_segment_ids)  # [B 1 T S]
        x = self.target_embedding(shift_right(targets, targets_positions, self.bos_id))
        x = add_sinusoids(x, targets_positions, length=targets.shape[1])
        x = self.drop(x, deterministic=deterministic)
        for layer in self.decoder:
            x = layer(x, mask, memory, source_mask, deterministic=deterministic)
        return self._logits(x)

    def encode(
        self,
        inputs: Int[Array, "B S"],
        inputs_positions: Int[Array, "B S"],
        inputs_segment_ids: Int[Array, "B S"],
        *,
        deterministic: bool = True,
    ) -> Float[Array, "B S D"]:
        """The encoder's output ("memory"): what the decoder attends to."""
        tied = self.config.tie_embeddings == "all"
        embedding = self.target_embedding if tied else self.source_embedding
        x = add_sinusoids(embedding(inputs), inputs_positions, length=inputs.shape[1])
        x = self.drop(x, deterministic=deterministic)
        mask = segment_mask(inputs_segment_ids, inputs_segment_ids)  # [B 1 S S]
        for layer in self.encoder:
            x = layer(x, mask, deterministic=deterministic)
        return self.encoder_norm(x) if self.config.norm == "pre" else x

    def init_cache(
        self,
        memory: Float[Array, "B S D"],
        memory_mask: Bool[Array, "B S"],
        *,
        beam_size: int,
        max_target_length: int,
    ) -> Cache:
        """The cache before the first token: source keys and values projected, the past empty."""
        config = self.config
        width = config.d_model // config.num_heads
        shape = (memory.shape[0], beam_size, config.num_heads, max_target_length, width)
        empty = jnp.zeros(shape, jnp.dtype(config.dtype))  # [B K N T H]
        return Cache(
            index=jnp.zeros((), jnp.int32),
            past=tuple(KeysValues(empty, empty) for _ in self.decoder),
            source=tuple(layer.source_keys_values(memory) for layer in self.decoder),
            source_mask=memory_mask[:, None, None, :],  # [B 1 1 S]
        )

    def decode_step(
        self, tokens: Int[Array, "B K"], cache: Cache
    ) -> tuple[Float[Array, "B K V"], Cache]:
        """Logits of the next token of each hypothesis, given its newest token and the cache.

        The first call gets `bos_id`; a cache holds at most `max_target_length` calls.
        """
        length = cache.past[0].keys.shape[3]
        x = self.target_embedding(tokens)  # [B K D]
        x = add_sinusoids(x, jnp.full(tokens.shape, cache.index), length=length)
        past = []
        for layer, old, source in zip(self.decoder, cache.past, cache.source, strict=True):
            x, new = layer.step(x, old, cache.index, source, cache.source_mask)
            past.append(new)
        cache = cache.replace(index=cache.index + 1, past=tuple(past))  # pyright: ignore[reportAttributeAccessIssue]
        return self._logits(x), cache

    def _logits(self, x: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
        if self.config.norm == "pre":
            x = self.decoder_norm(x)
        if self.config.tie_embeddings == "none":
            return self.output(x).astype(jnp.float32)
        return self.target_embedding.logits(x)
