"""Tokens -> logits: the encoder-decoder Transformer of "Attention Is All You Need" (2017).

Read in this order: `attention` (equation 1), `masks`, `multi_head_attention` (section 3.2.2),
`layers` (feed-forward network, embeddings, norms, residuals), `positions` (section 3.5),
`encoder_decoder` (the two layers of figure 1), `transformer`, `cache` (decoding token by token).

`config` names every choice. `kernels` is the interface for hardware. `stack` loops over layers.
"""
