"""A RECIPE AND HARDWARE -> WHAT THE COMPILER SAYS OF THEM: memory, operations, bytes between chips.

Nothing runs here and nothing is measured: programs are compiled, for devices that need not be there
(`topology`), and their compiler's own account is read off (`programs`, `collectives`). Read
`workload` for what is compiled, `memory` for the micro-batch that fits, `report` for the tables.
"""
