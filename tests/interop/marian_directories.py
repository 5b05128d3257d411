"""Tiny Marian directories, written without our table, and a tiny random model of ours to export."""

import functools
import io
import json
import random
from pathlib import Path
from typing import Any

import jax
import numpy as np
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from flaxformer_mt.checkpoints.loading import LoadedModel
from flaxformer_mt.config import Config
from flaxformer_mt.data.tokenization.sentencepiece_vocabulary import SentencePieceVocabulary
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.model.initialization import init_params
from flaxformer_mt.model.transformer import Transformer

ENGLISH = "the small cat dog house sees a big green tree under over walking walked talks"
GERMAN = "die kleine Katze Hund Haus sieht ein großer grüner Baum unter über geht ging redet"
LANGUAGE = ">>deu<<"
SHAPE = {
    "d_model": 8,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 12,
    "decoder_ffn_dim": 12,
    "max_position_embeddings": 40,
    "activation_function": "swish",
    "scale_embedding": True,
}


@functools.cache
def sentencepiece_model(words: str, **options: Any) -> bytes:
    """A model of about 60 pieces, trained on random sentences of these words."""
    rng = random.Random(0)
    lines = [" ".join(rng.choices(words.split(), k=6)) for _ in range(300)]
    file = io.BytesIO()
    given = {"vocab_size": 60, "hard_vocab_limit": False, "minloglevel": 2} | options
    SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=file, **given)
    return file.getvalue()


def normal_pieces(model: bytes) -> list[str]:
    processor = SentencePieceProcessor(model_proto=model)
    ids = range(processor.get_piece_size())
    return [
        processor.id_to_piece(i)
        for i in ids
        if not processor.is_control(i) and not processor.is_unknown(i)
    ]


def vocab(*models: bytes, size: int = 0) -> dict[str, int]:
    """The ids of an OPUS-MT model: EOS is 0, the unknown word 1, padding the last."""
    pieces = sorted({piece for model in models for piece in normal_pieces(model)})
    names = ["</s>", "<unk>", LANGUAGE, *pieces]
    names += [f"filler{i}" for i in range(len(names), size - 1)]
    return {name: token for token, name in enumerate([*names, "<pad>"])}


def tokenizer_files(*, separate: bool = False, **settings: Any) -> dict[str, bytes]:
    """All files of a tokenizer, by name; with separate vocabularies of the same size."""
    source, target = sentencepiece_model(ENGLISH), sentencepiece_model(GERMAN)
    files = {"source.spm": source, "target.spm": target}
    if separate:
        size = max(len(vocab(source)), len(vocab(target)))
        vocabs = {
            "vocab.json": vocab(source, size=size),
            "target_vocab.json": vocab(target, size=size),
        }
        settings = {"separate_vocabs": True} | settings
    else:
        vocabs = {"vocab.json": vocab(source, target)}
    files |= {name: json.dumps(content).encode() for name, content in vocabs.items()}
    if settings:
        files["tokenizer_config.json"] = json.dumps(settings).encode()
    return files


def write_tokenizer(directory: Path, **options: Any) -> dict[str, int]:
    """Writes the tokenizer's files; returns the ids that config.json must have."""
    directory.mkdir(parents=True, exist_ok=True)
    files = tokenizer_files(**options)
    for name, content in files.items():
        (directory / name).write_bytes(content)
    source = json.loads(files["vocab.json"])
    target = json.loads(files.get("target_vocab.json", files["vocab.json"]))
    return {
        "vocab_size": len(source),
        "decoder_vocab_size": len(target),
        "pad_token_id": source["<pad>"],
        "decoder_start_token_id": source["<pad>"],
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
    }


def tensor_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of such a model, without our table."""
    d, f = config["d_model"], config["encoder_ffn_dim"]
    source, target = config["vocab_size"], config["decoder_vocab_size"]
    shapes: dict[str, tuple[int, ...]] = {"final_logits_bias": (1, target)}
    if not config.get("tie_word_embeddings", True):
        shapes["lm_head.weight"] = (target, d)
    if config.get("share_encoder_decoder_embeddings", True):
        shapes["model.shared.weight"] = (source, d)
    else:
        shapes["model.encoder.embed_tokens.weight"] = (source, d)
        shapes["model.decoder.embed_tokens.weight"] = (target, d)
    for side, attentions in (
        ("encoder", ["self_attn"]),
        ("decoder", ["self_attn", "encoder_attn"]),
    ):
        for layer in range(config[f"{side}_layers"]):
            here = f"model.{side}.layers.{layer}"
            for attention in attentions:
                for part in "qkv":
                    shapes[f"{here}.{attention}.{part}_proj.weight"] = (d, d)
                    shapes[f"{here}.{attention}.{part}_proj.bias"] = (d,)
                shapes[f"{here}.{attention}.out_proj.weight"] = (d, d)
                shapes[f"{here}.{attention}.out_proj.bias"] = (d,)
            shapes[f"{here}.fc1.weight"], shapes[f"{here}.fc1.bias"] = (f, d), (f,)
            shapes[f"{here}.fc2.weight"], shapes[f"{here}.fc2.bias"] = (d, f), (d,)
            for norm in (
                *(f"{attention}_layer_norm" for attention in attentions),
                "final_layer_norm",
            ):
                shapes[f"{here}.{norm}.weight"] = shapes[f"{here}.{norm}.bias"] = (d,)
    return shapes


def write_json(file: Path, values: dict[str, Any]) -> None:
    file.write_text(json.dumps(values))


def write_directory(
    directory: Path,
    *,
    config: dict[str, Any] | None = None,
    generation: dict[str, Any] | None = None,
    separate: bool = False,
    seed: int = 0,
    **settings: Any,
) -> dict[str, np.ndarray]:
    """A whole directory with random tensors, which are returned; needs safetensors."""
    from safetensors.numpy import save_file

    ids = write_tokenizer(directory, separate=separate, **settings)
    shared = {"share_encoder_decoder_embeddings": not separate, "tie_word_embeddings": True}
    values = {"model_type": "marian", "architectures": ["MarianMTModel"]}
    values |= SHAPE | shared | ids | (config or {})
    write_json(directory / "config.json", values)
    if generation is not None:
        from_ids = ("decoder_start_token_id", "pad_token_id", "eos_token_id", "forced_eos_token_id")
        write_json(
            directory / "generation_config.json", {k: values[k] for k in from_ids} | generation
        )
    rng = np.random.default_rng(seed)
    tensors = {
        name: rng.normal(scale=0.4, size=shape).astype(np.float32)
        for name, shape in tensor_shapes(values).items()
    }
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    return tensors


OURS = TransformerConfig(
    d_model=16, d_ff=24, num_heads=2, num_encoder_layers=2, num_decoder_layers=1
)


def our_model(config: TransformerConfig, *, shared: bool = True, **options: Any) -> LoadedModel:
    """A random model of ours with SentencePiece vocabularies, every parameter far from zero."""
    given = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3} | options
    source = SentencePieceVocabulary(sentencepiece_model(ENGLISH, **given))
    target = source if shared else SentencePieceVocabulary(sentencepiece_model(GERMAN, **given))
    model = Transformer(config, source.size, target.size, target.bos_id)
    shapes = jax.eval_shape(lambda: init_params(model, jax.random.key(0)))
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda x: rng.normal(scale=0.4, size=x.shape).astype("float32"), shapes)
    return LoadedModel(Config(model=config), Tokenizer(source, target), model, params, "0")
