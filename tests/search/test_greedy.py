"""Greedy search on toy models."""

import numpy as np
from toy_models import BOS, EOS, PAD, UNK, log_softmax, random_tables, search, sentences
from toy_models import teacher_forced_score as score_of


def plain_greedy(table: np.ndarray, limit: int) -> tuple[int, ...]:
    """Returns the result of greedy search by definition, in plain Python."""
    log_probs = log_softmax(table)
    log_probs[:, [PAD, UNK, BOS]] = -np.inf
    tokens, prefix = [], 0
    while len(tokens) < limit - 1 and EOS not in tokens:
        tokens.append(int(log_probs[prefix].argmax()))
        prefix = (prefix * 7 + tokens[-1]) % len(table)
    return tuple(tokens if EOS in tokens else [*tokens, EOS])


def test_greedy_search_equals_its_definition():
    limits = [12, 12, 4, 1, 0, 12, 12, 12]
    tables = random_tables(3, len(limits), vocab_size=300)  # more than a block of top_k
    tables[..., EOS] += 3.0
    tables[..., UNK] += 20.0  # the most probable token, but suppressed
    found = search(tables, limits, alpha=0.6)
    for row, limit in enumerate(limits):
        if limit == 0:
            assert found.lengths[row] == 0 and found.scores[row] == -np.inf
            continue
        tokens = plain_greedy(tables[row], limit)
        assert sentences(found, row) == [tokens]
        np.testing.assert_allclose(
            found.scores[row, 0], score_of(tables[row], tokens, 0.6), rtol=1e-5
        )
        assert (found.tokens[row, 0, len(tokens) :] == PAD).all()
