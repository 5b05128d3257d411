"""LOGITS -> HYPOTHESES: the searches, scoring, and the translator that joins them to text.

Read `step`, `greedy` and `beam_search` (they know no model); then `translator`, which puts model,
search and tokenizer together by `segments`, `grouping` and `programs`.
"""
