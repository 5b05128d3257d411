"""The attention weights of a translation."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from flaxformer_mt.data.batching.batch import Batch, BatchShape, Example, pad_batch
from flaxformer_mt.data.tokenization.vocabulary import Vocabulary
from flaxformer_mt.model.transformer import Transformer
from flaxformer_mt.translation.checks import check_text
from flaxformer_mt.translation.segments import tag_lines
from flaxformer_mt.translation.translator import Translator

Kind = Literal["encoder", "decoder", "source"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "source")


class LabelledWeights(NamedTuple):
    """The weights of one kind of attention and the tokens of its axes."""

    weights: Float[np.ndarray, "L N T S"]
    queries: tuple[str, ...]
    """T tokens."""
    keys: tuple[str, ...]
    """S tokens."""


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class AttentionMaps:
    """The attention weights of every head of every layer for one translation.

    The last axis sums to 1. At step t the decoder has read the tokens `read[: t + 1]` and predicts
    `written[t]`. So `written` labels the queries of the decoder, and `read` the keys of its
    self-attention.
    """

    encoder: Float[np.ndarray, "encoder_layers N S S"]
    """Self-attention of the source."""
    decoder: Float[np.ndarray, "decoder_layers N T T"]
    """Self-attention of the target: zero to the right of the diagonal."""
    source: Float[np.ndarray, "decoder_layers N T S"]
    """From target to source ("cross-attention")."""
    source_tokens: tuple[str, ...]
    """S pieces, the last one EOS."""
    read: tuple[str, ...]
    """T pieces: BOS, then the target without EOS."""
    written: tuple[str, ...]
    """T pieces: the target, the last one EOS."""
    source_text: str
    target_text: str

    def labelled(self, kind: Kind) -> LabelledWeights:
        """Returns the weights of one kind of attention with its tokens."""
        if kind == "encoder":
            return LabelledWeights(self.encoder, self.source_tokens, self.source_tokens)
        if kind == "decoder":
            return LabelledWeights(self.decoder, self.written, self.read)
        return LabelledWeights(self.source, self.written, self.source_tokens)


def capture(translator: Translator, source: str, target: str | None = None) -> AttentionMaps:
    """Returns the attention weights of `translator` for a sentence and its translation `target`.

    A target of None is the translator's best. Of an ensemble, the weights are those of its first
    model. Raises ValueError if the source is blank or lacks the tag of a language that the model
    needs, or if a text is longer than the translator reads.
    """
    tokenizer = translator.tokenizer
    check_text(source, "the source")
    check_text(target or "", "the target")
    (source,) = tag_lines([source], tokenizer, None)
    inputs = tokenizer.source.tokenize(source)
    if len(inputs) < 2:
        raise ValueError(f"the source has no tokens: {source!r}")
    _check_length("source", inputs, translator.max_source_length)
    if target is None:
        found = translator.translate([source], num_hypotheses=1, split_sentences=False)
        targets = found[0][0].tokens
    else:
        targets = tokenizer.target.tokenize(target)
    _check_length("target", targets, translator.config.max_target_length)
    example = Example(np.array(inputs, np.int32), np.array(targets, np.int32))
    batch = pad_batch([example], BatchShape(1, len(inputs), len(targets)))
    weights = _weights_by_kind(translator.model, translator.params, batch)
    pieces = _pieces(tokenizer.target, [translator.model.bos_id, *targets])
    return AttentionMaps(
        **{kind: of_kind[:, 0] for kind, of_kind in weights.items()},
        source_tokens=_pieces(tokenizer.source, inputs),
        read=pieces[:-1],
        written=pieces[1:],
        source_text=tokenizer.source.detokenize(batch.inputs[0]),
        target_text=tokenizer.target.detokenize(batch.targets[0]),
    )


def _weights_by_kind(
    model: Transformer, params: Mapping[str, Any], batch: Batch
) -> dict[Kind, Float[np.ndarray, "L B N T S"]]:
    """Returns the softmax weights of every attention layer for a batch, without dropout.

    The layers `sow` their weights. A scan over layers would hide them, so the layers run one after
    another here, with the same parameters.
    """
    config = dataclasses.replace(model.config, layer_loop="unrolled", remat="none")
    layers = _record(params, jax.tree.map(jnp.asarray, batch), model=model.clone(config=config))

    def stacked(stack: str, count: int, attention: str) -> np.ndarray:
        weights = [layers[f"{stack}_{i}"][attention]["weights"][0] for i in range(count)]
        return np.stack([np.asarray(x, np.float32) for x in weights])

    return {
        "encoder": stacked("encoder", config.num_encoder_layers, "self_attention"),
        "decoder": stacked("decoder", config.num_decoder_layers, "self_attention"),
        "source": stacked("decoder", config.num_decoder_layers, "source_attention"),
    }


@functools.partial(jax.jit, static_argnames="model")
def _record(params: Mapping[str, Any], batch: Batch, *, model: Transformer) -> Any:
    """Returns what the modules `sow`, by module; compiled once for each shape."""
    variables = model.apply({"params": params}, *batch, mutable=["intermediates"])[1]
    return variables["intermediates"]


def _pieces(vocabulary: Vocabulary, tokens: Sequence[int]) -> tuple[str, ...]:
    return tuple(vocabulary.pieces[token] for token in tokens)


def _check_length(side: str, tokens: Sequence[int], limit: int) -> None:
    if len(tokens) > limit:
        raise ValueError(
            f"the {side} has {len(tokens)} tokens, but the model reads at most {limit} "
            f"(max_{side}_length): use a shorter sentence"
        )
