"""TOKENS -> LOGITS: the encoder-decoder Transformer of "Attention Is All You Need" (2017).

Read in the order of the paper: `transformer`, `encoder_decoder`, `attention`, `layers`,
`positions`, `masks`. `config` names every choice; `relations` holds the positions that came later,
`stack` how layers are looped over, `cache` what decoding one token at a time adds.
"""
