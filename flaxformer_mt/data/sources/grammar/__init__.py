"""A bilingual grammar: one clause, said in English and in German.

Read `lexicon` (the words), `phrases` (agreement of gender, case and number), `english` and `german`
(the order of the words and the forms of the verb), `draw` (dice that choose what a clause says),
`sentences` (the kinds of sentences).
"""
