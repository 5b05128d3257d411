"""A MODEL -> WHAT A PERSON SEES: the walk through its tensors, its attention, its parts drawn.

Read `walk` (with `flops`, `letters` and `table`) for `python -m flaxformer_mt.summary`, and
`capture`, `attention_figure` and `attention_page` for `python -m flaxformer_mt.attention_maps`.
"""
