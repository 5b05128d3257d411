"""Speed of this project beside other toolkits, on the same batches, weights and cores.

    python -m benchmarks.train      updates: target tokens/s
    python -m benchmarks.decode     search: sentences/s, and the cost against length
    python -m benchmarks.input      the data pipeline alone: pairs/s, padding, waiting
    python -m benchmarks.startup    from the command to the first translation
    python -m benchmarks.table      prints the recorded rows as tables

Each contender works in its own process (`child.py`), one at a time, in rounds (`rounds.py`).
"""
