"""What attention replaced: a GRU encoder-decoder with additive attention (Bahdanau et al. 2015).

The encoder reads the source forwards and backwards (section 3.2 there). At each target word the
decoder compares its state with every source word (section 3.1 and appendix A there):

    e_tj = v^T tanh(W s_(t-1) + U h_j),  alpha_t = softmax(e_t),  c_t = sum_j alpha_tj h_j
    s_t = GRU([y_(t-1); c_t], s_(t-1))

The logits are a linear map of tanh([s_t; c_t; y_(t-1)]). Bahdanau et al. have a maxout layer
there, which reads s_(t-1). `examples/table_1.py` trains the model beside the Transformer.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


class GRU(nn.Module):
    """A gated recurrent unit (Cho et al. 2014): one step, or a whole row.

    r, z = sigmoid(W_rz x + U_rz h), n = tanh(W_n x + U_n (r * h)), h' = (1 - z) n + z h
    """

    width: int

    def setup(self) -> None:
        """Makes the maps of the input and of the state."""
        self.of_input = nn.Dense(3 * self.width)
        self.gates_of_state = nn.Dense(2 * self.width, use_bias=False)
        self.new_of_state = nn.Dense(self.width, use_bias=False)

    def __call__(self, state: Any, x: Any) -> Any:
        """Returns the next state [B D] after the input x [B E]."""
        r, z, n = jnp.split(self.of_input(x), 3, axis=-1)
        from_r, from_z = jnp.split(self.gates_of_state(state), 2, axis=-1)
        r, z = nn.sigmoid(r + from_r), nn.sigmoid(z + from_z)
        new = jnp.tanh(n + self.new_of_state(r * state))
        return (1 - z) * new + z * state

    def scan(self, x: Any, real: Any, *, reverse: bool = False) -> Any:
        """Returns the states [B S D] at all positions of x [B S E]; padding keeps the state."""

        def step(gru: GRU, state: Any, inputs: Any) -> Any:
            x, real = inputs
            state = jnp.where(real[:, None], gru(state, x), state)
            return state, state

        axes: dict[str, Any] = {"variable_broadcast": "params", "split_rngs": {"params": False}}
        scan: Any = nn.scan(step, **axes, in_axes=1, out_axes=1, reverse=reverse)
        start = jnp.zeros((x.shape[0], self.width))
        return scan(self, start, (x, real))[1]


class AttentionDecoder(nn.Module):
    """One step of the decoder."""

    width: int

    def setup(self) -> None:
        """Makes the attention and the recurrence."""
        self.of_state = nn.Dense(self.width, use_bias=False)  # W
        self.vector = nn.Dense(1, use_bias=False)  # v
        self.gru = GRU(self.width)

    def __call__(self, state: Any, word: Any, memory: Any, keys: Any, real: Any) -> Any:
        """Returns the next state [B D], and (features [B 2D + E], weights [B S]).

        Args:
          state: s_(t-1).
          word: vector of the word before, [B E].
          memory: h_j, [B S 2D].
          keys: U h_j, [B S D].
          real: which source positions are no padding, [B S].
        """
        scores = self.vector(jnp.tanh(self.of_state(state)[:, None] + keys))[..., 0]  # [B S]
        weights = jax.nn.softmax(jnp.where(real, scores, -1e9), axis=-1)
        context = jnp.einsum("BS,BSD->BD", weights, memory)
        state = self.gru(state, jnp.concatenate([word, context], axis=-1))
        return state, (jnp.concatenate([state, context, word], axis=-1), weights)


class RecurrentTranslator(nn.Module):
    """The whole model; source and target share one vocabulary."""

    vocab_size: int
    width: int = 64

    def setup(self) -> None:
        """Makes the modules."""
        self.embedding = nn.Embed(self.vocab_size, self.width)
        self.forwards, self.backwards = GRU(self.width), GRU(self.width)
        self.of_memory = nn.Dense(self.width)  # U
        self.first_state = nn.Dense(self.width)
        self.decoder = AttentionDecoder(self.width)
        self.output = nn.Dense(self.vocab_size)

    def __call__(
        self, inputs: Any, inputs_segment_ids: Any, read: Any, *, with_weights: bool = False
    ) -> Any:
        """Returns the logits [B T V] of the words that follow `read` [B T], which starts with BOS.

        With `with_weights` also the attention [B T S].
        """
        real = jnp.asarray(inputs_segment_ids) != 0
        x = self.embedding(jnp.asarray(inputs))
        there, back = self.forwards.scan(x, real), self.backwards.scan(x, real, reverse=True)
        memory = jnp.concatenate([there, back], axis=-1)  # [B S 2D]
        keys, start = self.of_memory(memory), jnp.tanh(self.first_state(back[:, 0]))

        def step(decoder: AttentionDecoder, state: Any, word: Any) -> Any:
            return decoder(state, word, memory, keys, real)

        axes: dict[str, Any] = {"variable_broadcast": "params", "split_rngs": {"params": False}}
        scan: Any = nn.scan(step, **axes, in_axes=1, out_axes=1)
        _, (features, weights) = scan(self.decoder, start, self.embedding(jnp.asarray(read)))
        logits = self.output(jnp.tanh(features))
        return (logits, weights) if with_weights else logits
