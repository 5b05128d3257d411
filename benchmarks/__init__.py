"""How fast it is: ours and other toolkits, alternately, on the same batches, weights and cores.

    python -m benchmarks.train      updates: target tokens/s
    python -m benchmarks.decode     search: sentences/s, and the cost against length
    python -m benchmarks.input      the data pipeline alone: pairs/s, padding, waiting
    python -m benchmarks.startup    from the command to the first translation
    python -m benchmarks.table      the tables of the README, from what these wrote

Each contender works in a process of its own (`child.py`), one at a time, in rounds (`rounds.py`).
"""
