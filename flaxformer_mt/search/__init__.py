"""The search: logits -> tokens. It knows a function, `DecodeStep`, and no model."""
