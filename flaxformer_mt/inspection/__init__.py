"""Tables and figures of a model: its modules and their costs, its attention.

`modules`, `costs` and `table` serve the command `summary`; `capture` and `attention_figure` serve
`attention_maps`; `paper_figures` serves the notebook.
"""
