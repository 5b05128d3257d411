"""The Transformer: encoder, decoder and the model of both (section 3, figure 1).

Training reads a whole target at once (`__call__`, teacher forcing); translation runs `encode`
and `init_cache` once for each sentence and then `decode_step` once for each token. Both use the
same parameters through the same sub-layers, and give the same logits.
"""

import functools

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from flaxformer_mt.model.cache import Cache, Source, start_cache
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.dropout import Dropout, DropoutRows
from flaxformer_mt.model.encoder_decoder import DecoderLayer, EncoderLayer, final_norm
from flaxformer_mt.model.layers import Embedding, Linear, parameter
from flaxformer_mt.model.masks import View, causal_mask, neighborhood_mask, segment_mask
from flaxformer_mt.model.positions import make_added_positions
from flaxformer_mt.model.stack import choose_run


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
        make_embedding = functools.partial(
            Embedding, d_model=config.d_model, scaled=config.scale_embeddings, dtype=dtype
        )
        self.target_embedding = make_embedding(self.target_vocab_size)
        if config.tie_embeddings == "all":
            if self.source_vocab_size != self.target_vocab_size:
                raise ValueError(
                    f"model.tie_embeddings='all' needs one vocabulary for both languages, got "
                    f"{self.source_vocab_size} source and {self.target_vocab_size} target tokens: "
                    "use --data.tokenizer.shared True, or --model.tie-embeddings target"
                )
        else:
            self.source_embedding = make_embedding(self.source_vocab_size)
        if config.tie_embeddings == "none":
            self.output = Linear(
                (config.d_model, self.target_vocab_size),
                ("embed", "vocab"),
                use_bias=False,
                dtype=dtype,
            )
        if config.output_bias:
            zeros = nn.initializers.zeros
            self.logits_bias = parameter(
                self, "logits_bias", zeros, (self.target_vocab_size,), ("vocab",)
            )
        self.encoder_positions = make_added_positions(config.positions, config.max_positions)
        self.decoder_positions = make_added_positions(config.positions, config.max_positions)
        self.drop = Dropout(config.dropout)
        self.encoder = [EncoderLayer(config) for _ in range(config.num_encoder_layers)]
        self.decoder = [DecoderLayer(config) for _ in range(config.num_decoder_layers)]
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
        """Logits of every target token given the source and the target tokens before it.

        Args:
          inputs: source tokens; positions and segment ids as in `data.batch.Batch`.
          targets: target tokens, EOS inside; shifted right here.
          dropout_rows: switches dropout on, and needs `rngs={"dropout": key}`: which row of the
            whole batch each row is (jnp.arange(B), where the batch is not divided).

        Returns:
          float32 logits; position t predicts targets[:, t].
        """
        memory = self.encode(
            inputs, inputs_positions, inputs_segment_ids, dropout_rows=dropout_rows
        )
        length = targets.shape[1]
        mask = segment_mask(targets_segment_ids, targets_segment_ids) & causal_mask(length)
        view = self._near(View(mask, targets_positions, targets_positions))  # mask [B 1 T T]
        source_view = View(segment_mask(targets_segment_ids, inputs_segment_ids))  # [B 1 T S]
        x = self.target_embedding(shift_right(targets, targets_positions, self.bos_id))
        x = self.decoder_positions(x, targets_positions, length=length)
        x = self.drop(x, dropout_rows=dropout_rows)
        x = self.run_layers(self.decoder, x, view, memory, source_view, dropout_rows=dropout_rows)
        return self._logits(x)

    def encode(
        self,
        inputs: Int[Array, "B S"],
        inputs_positions: Int[Array, "B S"],
        inputs_segment_ids: Int[Array, "B S"],
        *,
        dropout_rows: DropoutRows = None,
    ) -> Float[Array, "B S D"]:
        """The encoder's output ("memory"): what the decoder attends to."""
        tied = self.config.tie_embeddings == "all"
        embedding = self.target_embedding if tied else self.source_embedding
        x = self.encoder_positions(embedding(inputs), inputs_positions, length=inputs.shape[1])
        x = self.drop(x, dropout_rows=dropout_rows)
        mask = segment_mask(inputs_segment_ids, inputs_segment_ids)  # [B 1 S S]
        view = self._near(View(mask, inputs_positions, inputs_positions))
        x = self.run_layers(self.encoder, x, view, dropout_rows=dropout_rows)
        return self.encoder_norm(x)

    def init_cache(
        self,
        memory: Float[Array, "B S D"],
        memory_mask: Bool[Array, "B S"],
        *,
        beam_size: int,
        max_target_length: int,
        frugal: bool = False,
    ) -> Cache:
        """The cache before the first token: source keys and values projected, the past empty.

        `frugal` as a CPU wants it: see `project_source` and `start_cache`.
        """
        return start_cache(
            self.project_source(memory, memory_mask, frugal=frugal),
            beam_size=beam_size,
            max_target_length=max_target_length,
            frugal=frugal,
        )

    def project_source(
        self,
        memory: Float[Array, "B S D"],
        memory_mask: Bool[Array, "B S"],
        *,
        frugal: bool = False,
    ) -> Source:
        """Keys and values of the encoder's output for every decoder layer.

        If `frugal` in float32, and so all of the cache: a CPU's program would convert all of it at
        every token.
        """
        dtype = jnp.float32 if frugal else jnp.dtype(self.config.dtype)
        layers = (layer.source_keys_values(memory).astype(dtype) for layer in self.decoder)
        return Source(tuple(layers), memory_mask[:, None, None, :])

    def decode_step(
        self, tokens: Int[Array, "B K"], cache: Cache
    ) -> tuple[Float[Array, "B K V"], Cache]:
        """Logits of the next token of each hypothesis, given its newest token and the cache.

        The first call gets `bos_id`; a cache holds at most `max_target_length` calls.
        """
        view = self._near(cache.view())
        source_view = View(cache.source_mask)
        x = self.target_embedding(tokens)  # [B K D]
        assert view.query_positions is not None
        x = self.decoder_positions(x, view.query_positions, length=cache.length)
        slots, past = cache.free_slots(), []
        for layer, old, source in zip(self.decoder, cache.past, cache.source, strict=True):
            x, new = layer.step(x, old, slots, view, source, source_view)
            past.append(new)
        return self._logits(x), cache.after(slots, tuple(past), view)

    def _near(self, view: View) -> View:
        """Of self-attention, the part that `config.neighborhood` leaves."""
        size = self.config.neighborhood
        if not size or view.query_positions is None or view.key_positions is None:
            return view
        near = neighborhood_mask(view.query_positions, view.key_positions, size)
        return view._replace(mask=view.mask & near)

    def _logits(self, x: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
        x = self.decoder_norm(x)
        if self.config.tie_embeddings == "none":
            logits = self.output(x).astype(jnp.float32)
        else:
            logits = self.target_embedding.logits(x)
        return logits + self.logits_bias if self.config.output_bias else logits
