"""TOKENS -> LOGITS: the encoder-decoder Transformer of "Attention Is All You Need" (2017).

Read in the order of the paper: `transformer`, `attention`, `layers`, `positions`, `masks`; then
`cache`, which is what decoding one token at a time adds.
"""
