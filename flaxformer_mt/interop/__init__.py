"""Models in the formats of other tools: Hugging Face Marian (read, written), CTranslate2 (written).

`verify` compares an export with the workdir that it was made from. The command is
`python -m flaxformer_mt.convert`; no other package imports this one.
"""
