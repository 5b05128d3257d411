"""Tables and figures of a model: its modules and their costs, its attention.

`modules`, `flops` and `table` serve the command `summary`; `capture` and `attention_figure` serve
`attention_maps`; `run_pictures` serves `train`.
"""
