"""Generates the demo's English-German sentence pairs: a bilingual grammar over a small lexicon.

    python -m tools.demo_text.write     # writes flaxformer_mt/data/sources/demo/*.tsv.xz
    python -m tools.demo_text.check     # translates hand-written sentences with a trained demo

Read `lexicon` (the words), `phrases` (agreement of gender, case and number), `english` and `german`
(word order and verb forms), `draw` (random choices), `sentences` (varied sentences), `plain` (short
ones), `everyday` (more constructions, names, fixed phrases), the modules `further_*` (words and
constructions of a beginner's course), `phrasebook` (a table of phrases with blanks), `rare_words`
(tables of nouns, verbs and adjectives) and `write` (splits and files).
"""
