"""IN AND OUT: models of other toolkits become workdirs, and workdirs become models of theirs.

`marian` is Hugging Face's MarianMTModel, in both directions, by the one table of `marian_table`;
`ctranslate2` writes models for that engine; `verify` proves an export against the workdir that it
was made from. Nothing else in the package imports this room; `python -m flaxformer_mt.convert`
is its door.
"""
