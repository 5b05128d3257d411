"""A stack of post-norm layers by the equations of the paper, in float64 NumPy."""

import numpy as np


def forward(params, tokens, *, num_layers, causal):
    """Returns the logits [T V] of one sentence without padding; output tied to the embeddings."""
    params = to_float64(params)
    table = params["embedding"]["table"]
    length, d_model = len(tokens), table.shape[1]
    position, i = np.arange(length)[:, None], np.arange(0, d_model, 2)
    angles = position / 10000 ** (i / d_model)
    x = table[np.asarray(tokens)] * np.sqrt(d_model)
    x[:, 0::2] += np.sin(angles)
    x[:, 1::2] += np.cos(angles)
    for number in range(num_layers):
        layer = params[f"layers_{number}"]
        x = layer_norm(x + attention(layer["self_attention"], x, causal), layer, "attention")
        widened = np.maximum(linear(layer["feed_forward"]["in"], x), 0)
        x = layer_norm(x + linear(layer["feed_forward"]["out"], widened), layer, "feed_forward")
    return x @ table.T


def attention(params, x, causal):
    """Returns section 3.2.2, one head and one query at a time."""
    queries, keys, values = (
        np.einsum("TD,DNH->TNH", x, params[name]["kernel"]) + params[name]["bias"]
        for name in ("query", "key", "value")
    )
    heads = np.zeros_like(values)
    length, num_heads, width = queries.shape
    for n, t in np.ndindex(num_heads, length):
        end = t + 1 if causal else length
        weights = np.exp(keys[:end, n] @ queries[t, n] / np.sqrt(width))
        heads[t, n] = weights @ values[:end, n] / weights.sum()
    return np.einsum("TNH,NHD->TD", heads, params["out"]["kernel"]) + params["out"]["bias"]


def layer_norm(x, layer, name):
    scale_bias = layer[f"{name}_residual"]["layer_norm"]
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    return x * scale_bias["scale"] + scale_bias["bias"]


def linear(params, x):
    return x @ params["kernel"] + params["bias"]


def to_float64(tree):
    if isinstance(tree, dict):
        return {name: to_float64(child) for name, child in tree.items()}
    return np.asarray(tree, np.float64)
