"""The Transformer: encoder, decoder and the model of both (section 3, figure 1).

Training reads a whole target at once (`__call__`, teacher forcing). Translation runs
`encode_source` once for each sentence and `decode_step` once for each token. Both use the same
parameters and sub-layers, and give the same logits.
"""

import dataclasses

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from flaxformer_mt.model.cache import Cache, Source
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.encoder_decoder import DecoderLayer, EncoderLayer
from flaxformer_mt.model.kernels import REFERENCE, DropoutRows, Kernels
from flaxformer_mt.model.layers import Dropout, Embedding, Linear, final_norm, parameter
from flaxformer_mt.model.masks import AttentionContext, attention_context
from flaxformer_mt.model.positions import make_added_positions
from flaxformer_mt.model.stack import choose_run


def shift_right(
    targets: Int[Array, "B T"], positions: Int[Array, "B T"], bos_id: int
) -> Int[Array, "B T"]:
    """Returns the decoder's input: `targets` shifted right by one, with BOS first.

    A sentence starts where its position is 0. So in a packed row every sentence starts with BOS,
    as in translation, and not with the end of the sentence before it.
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
      kernels: the implementations of the operations on this device.
    """

    config: TransformerConfig
    source_vocab_size: int
    target_vocab_size: int
    bos_id: int
    kernels: Kernels = REFERENCE

    def setup(self) -> None:
        config, kernels = self.config, self.kernels
        self.target_embedding = Embedding(config, self.target_vocab_size, kernels)
        if config.tie_embeddings != "all":
            self.source_embedding = Embedding(config, self.source_vocab_size, kernels)
        elif self.source_vocab_size == self.target_vocab_size:
            self.source_embedding = self.target_embedding
        else:
            raise ValueError(
                f"model.tie_embeddings='all' needs one vocabulary for both languages, got "
                f"{self.source_vocab_size} source and {self.target_vocab_size} target tokens: "
                "use --data.tokenizer.shared True, or --model.tie-embeddings target"
            )
        if config.tie_embeddings == "none":
            shape, axes = (config.d_model, self.target_vocab_size), ("embed", "vocab")
            types = {"dtype": config.dtype, "result_dtype": jnp.float32}
            self.output = Linear(shape, axes, use_bias=False, kernels=kernels, **types)
        if config.output_bias:
            zeros, shape = nn.initializers.zeros, (self.target_vocab_size,)
            self.logits_bias = parameter(self, "logits_bias", zeros, shape, ("vocab",))
        self.encoder_positions = make_added_positions(config.positions, config.max_positions)
        self.decoder_positions = make_added_positions(config.positions, config.max_positions)
        self.drop = Dropout(config.dropout, kernels)
        self.encoder = [EncoderLayer(config, kernels) for _ in range(config.num_encoder_layers)]
        self.decoder = [DecoderLayer(config, kernels) for _ in range(config.num_decoder_layers)]
        self.encoder_norm = final_norm(config)
        self.decoder_norm = final_norm(config)
        self.run_layers = choose_run(config.layer_loop, config.remat)

    def __call__(
        self,
        inputs: Int[Array, "B S"],
        targets: Int[Array, "B T"],
        inputs_positions: Int[Array, "B S"],
        targets_positions: Int[Array, "B T"],
        inputs_segment_ids: Int[Array, "B S"],
        targets_segment_ids: Int[Array, "B T"],
        *,
        dropout_rows: DropoutRows = None,
    ) -> Float[Array, "B T V"]:
        """Returns the float32 logits of every target token, given the source and the tokens before.

        Position t predicts targets[:, t].

        Args:
          inputs: source tokens; positions and segment ids as in `data.batching.batch.Batch`.
          targets: target tokens with EOS; shifted right here.
          dropout_rows: the number of each row in the whole batch (jnp.arange(B) for an undivided
            batch). Switches dropout on, and needs `rngs={"dropout": key}`.
        """
        memory = self.encode(
            inputs, inputs_positions, inputs_segment_ids, dropout_rows=dropout_rows
        )
        context = self._self_context(targets_segment_ids, targets_positions, causal=True)
        source_context = attention_context(targets_segment_ids, inputs_segment_ids)
        x = self.target_embedding(shift_right(targets, targets_positions, self.bos_id))
        x = self.decoder_positions(x, targets_positions, length=targets.shape[1])
        x = self.drop(x, dropout_rows=dropout_rows)
        x = self.run_layers(
            self.decoder, x, context, memory, source_context, dropout_rows=dropout_rows
        )
        return self._logits(x)

    def encode(
        self,
        inputs: Int[Array, "B S"],
        inputs_positions: Int[Array, "B S"],
        inputs_segment_ids: Int[Array, "B S"],
        *,
        dropout_rows: DropoutRows = None,
    ) -> Float[Array, "B S D"]:
        """Returns the encoder's output ("memory"), to which the decoder attends."""
        x = self.source_embedding(inputs)
        x = self.encoder_positions(x, inputs_positions, length=inputs.shape[1])
        x = self.drop(x, dropout_rows=dropout_rows)
        context = self._self_context(inputs_segment_ids, inputs_positions, causal=False)
        x = self.run_layers(self.encoder, x, context, dropout_rows=dropout_rows)
        return self.encoder_norm(x)

    def encode_source(
        self,
        inputs: Int[Array, "B S"],
        inputs_positions: Int[Array, "B S"],
        inputs_segment_ids: Int[Array, "B S"],
    ) -> Source:
        """Returns keys and values of the encoder's output for every decoder layer."""
        memory = self.encode(inputs, inputs_positions, inputs_segment_ids)
        layers = tuple(layer.source_keys_values(memory) for layer in self.decoder)
        return Source(layers, inputs_segment_ids != 0)

    def decode_step(
        self, tokens: Int[Array, "B K"], cache: Cache
    ) -> tuple[Float[Array, "B K V"], Cache]:
        """Returns the logits after the newest token of each hypothesis, and the longer cache.

        The first call gets `bos_id`. A cache has room for `max_target_length` calls.
        """
        slots = cache.free_slots()
        cache = cache.with_new_tokens(slots, local_window=self.config.local_window)
        context = cache.context()
        source_context = AttentionContext(cache.source_mask[:, None, None])
        positions = context.query_positions
        assert positions is not None
        x = self.decoder_positions(self.target_embedding(tokens), positions, length=cache.length)
        past = []
        for layer, old, source in zip(self.decoder, cache.past, cache.source, strict=True):
            x, new = layer.step(x, old, slots, context, source, source_context)
            past.append(new)
        cache = dataclasses.replace(cache, index=cache.index + 1, past=tuple(past))
        return self._logits(x), cache

    def _self_context(
        self, segment_ids: Int[Array, "B T"], positions: Int[Array, "B T"], *, causal: bool
    ) -> AttentionContext:
        window = self.config.local_window
        return attention_context(
            segment_ids, segment_ids, positions, positions, causal=causal, local_window=window
        )

    def _logits(self, x: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
        x = self.decoder_norm(x)
        if self.config.tie_embeddings == "none":
            logits = self.output(x)
        else:
            logits = self.target_embedding.logits(x)
        return logits + self.logits_bias if self.config.output_bias else logits
