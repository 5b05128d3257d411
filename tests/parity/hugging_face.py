"""Tiny random MarianMTModels and their outputs, which tests/parity compares with ours."""

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from marian_directories import SHAPE, write_tokenizer

transformers.utils.logging.disable_progress_bar()

SENTENCES = [
    "the cat",
    "a big dog sees the small house",
    ">>deu<< the tree talks under the cat",
    "walking",
    "zebra over the green house",
    "dog dog dog dog dog dog",
]


class Theirs(NamedTuple):
    """A model of theirs, its tokenizer, and the directory that holds both."""

    model: Any
    tokenizer: Any
    directory: Path


def load(directory: Path) -> Theirs:
    """A directory as `transformers` reads it."""
    model = transformers.MarianMTModel.from_pretrained(directory).eval()
    return Theirs(model, load_tokenizer(directory), directory)


def load_tokenizer(directory: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends sacremoses, which nothing here uses
        return transformers.MarianTokenizer.from_pretrained(directory)


def make(
    directory: Path,
    *,
    seed: int = 0,
    separate: bool = False,
    end: float = 0.1,
    generation: dict[str, Any] | None = None,
    **config: Any,
) -> Theirs:
    """A random model, saved by `transformers`.

    Args:
      seed: of its parameters.
      separate: a vocabulary for each language.
      end: probability of EOS at an average position, so that outputs have various lengths.
      generation: fields of its generation config.
      config: fields of its config.
    """
    ids = write_tokenizer(directory, separate=separate)
    shared = {"share_encoder_decoder_embeddings": not separate}
    rng = np.random.default_rng(seed)

    def random_like(x: torch.Tensor, scale: float) -> torch.Tensor:
        return torch.tensor(rng.normal(scale=scale, size=tuple(x.shape)), dtype=x.dtype)

    model = transformers.MarianMTModel(
        transformers.MarianConfig(**(SHAPE | {"d_model": 16} | shared | ids | config))
    ).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                is_scale = "layer_norm.weight" in name
                parameter.copy_(is_scale + random_like(parameter, 0.35))
        model.final_logits_bias.copy_(random_like(model.final_logits_bias, 0.7))
        logits = torch.tensor(teacher_forced(model, *random_batch(model)))
        others = torch.logsumexp(logits[..., 1:], dim=-1)
        model.final_logits_bias[0, 0] += float(
            (others - logits[..., 0]).mean() + np.log(end / (1 - end))
        )
    for name, value in (generation or {}).items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(directory)
    return Theirs(model, load_tokenizer(directory), directory)


def random_batch(model: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs of various lengths, their mask, and targets."""
    rng = np.random.default_rng(1)
    inputs = rng.integers(0, model.config.vocab_size, (5, 7))
    mask = (np.arange(7) < np.array([7, 3, 1, 6, 7])[:, None]).astype(int)
    inputs = np.where(mask, inputs, model.config.pad_token_id)
    return inputs, mask, rng.integers(0, model.config.decoder_vocab_size, (5, 6))


def teacher_forced(model: Any, inputs: np.ndarray, mask: np.ndarray, targets: np.ndarray) -> Any:
    """Logits [B T V] of the targets."""
    with torch.no_grad():
        given = {"input_ids": inputs, "attention_mask": mask, "labels": targets}
        return model(**{k: torch.tensor(v) for k, v in given.items()}).logits.numpy()


class Output(NamedTuple):
    tokens: list[int]
    text: str
    score: float | None


def generate(theirs: Theirs, sentences: list[str], **given: Any) -> list[list[Output]]:
    """Translations of each sentence by `generate`, best first: tokens up to EOS, text, score."""
    batch = theirs.tokenizer(sentences, return_tensors="pt", padding=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it advises to set a length
        found = theirs.model.generate(
            **batch, **given, return_dict_in_generate=True, output_scores=True
        )
    texts = theirs.tokenizer.batch_decode(found.sequences, skip_special_tokens=True)
    beam_scores = getattr(found, "sequences_scores", None)
    scores = [None] * len(texts) if beam_scores is None else beam_scores.tolist()
    end = theirs.model.config.eos_token_id
    rows = [row[1:] for row in found.sequences.tolist()]
    outputs = [
        Output(row[: row.index(end) + 1], text, score)
        for row, text, score in zip(rows, texts, scores, strict=True)
    ]
    number = len(outputs) // len(sentences)
    return [outputs[i : i + number] for i in range(0, len(outputs), number)]
