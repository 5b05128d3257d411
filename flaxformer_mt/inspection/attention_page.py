"""Attention as one HTML file that needs no network: every layer and head, following the mouse."""

import json
from importlib import resources
from typing import Any

import numpy as np

from flaxformer_mt.inspection.capture import AttentionMaps, Kind

_TEXTS: dict[Kind, dict[str, str]] = {
    "source": {
        "name": "Source attention",
        "note": "At each step the decoder asks the encoded source for what it needs to write the "
        "next token.",
        "looks": "Written",
        "at": "looking at the source",
    },
    "encoder": {
        "name": "Encoder self-attention",
        "note": "Each source token gathers from the whole source what it means in this sentence.",
        "looks": "Source",
        "at": "looking at the source",
    },
    "decoder": {
        "name": "Decoder self-attention",
        "note": "To write a token the decoder looks back at what it has read: the start of the "
        "target and the tokens written before.",
        "looks": "Written",
        "at": "looking at what has been read",
    },
}


def attention_page(maps: AttentionMaps) -> str:
    """The page as HTML: choose a kind of attention, a layer and a head, point at a token."""
    data: dict[str, Any] = {"title": f"{maps.source_text} → {maps.target_text}"}
    for kind in _TEXTS:
        labelled = maps.labelled(kind)
        rounded = np.round(labelled.weights.astype(np.float64), 3).tolist()
        data[kind] = {"weights": rounded, "queries": labelled.queries, "keys": labelled.keys}
        data[kind] |= _TEXTS[kind]
    # Inside of <script> only "<" could end the data: JSON may write it as an escape.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    template = (
        resources.files("flaxformer_mt.inspection")
        .joinpath("attention.html")
        .read_text(encoding="utf-8")
    )
    return template.replace("{{maps}}", text)
