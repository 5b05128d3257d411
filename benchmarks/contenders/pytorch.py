"""PyTorch's `nn.Transformer` and Hugging Face's Marian, unchanged and as fast as possible.

Superfluous work is left out: the mask over target padding (the causal mask hides it, because it
comes after all real tokens), dropout of probability 0, and zeroed gradients.
"""

import contextlib
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.child import Answer
from benchmarks.contenders.given import read, search_rules
from flaxformer_mt.runtime.host import num_cpus

IGNORED = -100
"""PyTorch's label of padding."""
Logits = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(inputs [B S], True at real tokens [B S], target tokens before each position [B T]) -> [B T V]"""


class NnTransformer(nn.Module):
    """The paper's model by `torch.nn.Transformer`, with one embedding for all."""

    def __init__(self, sizes: dict[str, Any]) -> None:
        """`sizes` are fields of our TransformerConfig, and vocab_size."""
        super().__init__()
        width, dropout = sizes["d_model"], sizes["dropout"]
        self.embedding = nn.Embedding(sizes["vocab_size"], width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.dropout = nn.Dropout(dropout)
        self.transformer = nn.Transformer(
            width,
            sizes["num_heads"],
            sizes["num_encoder_layers"],
            sizes["num_decoder_layers"],
            sizes["d_ff"],
            dropout,
            batch_first=True,
        )
        self.positions: Tensor
        self.register_buffer("positions", sinusoids(1024, width), persistent=False)
        for part in self.modules():  # no dropout inside sub-layers, as in the others
            if isinstance(part, nn.MultiheadAttention):
                part.dropout = 0.0
            elif isinstance(part, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                part.register_module("dropout", nn.Identity())

    def forward(self, inputs: Tensor, real: Tensor, before: Tensor) -> Tensor:
        """Returns logits [B T V]."""
        causal = nn.Transformer.generate_square_subsequent_mask(
            before.shape[1], device=before.device
        )
        hidden = self.transformer(
            self.embed(inputs),
            self.embed(before),
            tgt_mask=causal,
            src_key_padding_mask=~real,
            memory_key_padding_mask=~real,
            tgt_is_causal=True,
        )
        return F.linear(hidden, self.embedding.weight)

    def embed(self, tokens: Tensor) -> Tensor:
        """Returns embeddings with positions [B L D]."""
        scale = math.sqrt(self.embedding.embedding_dim)
        return self.dropout(self.embedding(tokens) * scale + self.positions[: tokens.shape[1]])


def sinusoids(length: int, width: int) -> Tensor:
    """Returns the paper's positions [length width]."""
    angles = torch.arange(length)[:, None] / 10_000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(length, width)


def marian(directory: str) -> Any:
    """Returns the export of our model."""
    import transformers
    from transformers.utils import logging

    logging.disable_progress_bar()
    return transformers.MarianMTModel.from_pretrained(
        directory, attn_implementation="sdpa", dtype=torch.float32
    )


def marian_logits(model: Any) -> Logits:
    """Returns the teacher-forced logits as a function."""
    return lambda inputs, real, before: (
        model(
            input_ids=inputs,
            attention_mask=real.long(),
            decoder_input_ids=before,
            use_cache=False,
        ).logits
    )


def start(device: str) -> torch.device:
    """Returns the device; a CPU gets one thread for each core."""
    torch.manual_seed(0)
    torch.set_num_threads(num_cpus())
    return torch.device("cuda" if device == "gpu" else "cpu")


def wait_for(device: torch.device) -> None:
    """Returns when all work is done."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def device_memory(device: torch.device) -> Answer:
    """Returns the peak memory of a GPU, which replaces that of the process."""
    if device.type == "cuda":
        return {"peak_memory": torch.cuda.max_memory_allocated()}
    return {}


class Training:
    """Updates with label smoothing, clipping and fused Adam, like ours."""

    def __init__(
        self,
        *,
        weights: str,
        batches: str,
        dtype: str,
        device: str,
        compiled: bool,
        sizes: dict[str, Any],
        training: dict[str, Any],
    ) -> None:
        """Makes the model, does an update with each shape of batch, and one round.

        Args:
          weights: directory of a Marian export; empty = nn.Transformer with random weights.
          batches: file.
          dtype: bfloat16 means autocast with float32 weights.
          device: cpu or gpu.
          compiled: use torch.compile.
          sizes: fields of our TransformerConfig, vocab_size and bos_id.
          training: fields of our TrainingConfig.
        """
        self._device, self._training = start(device), training
        self._model = (marian(weights) if weights else NnTransformer(sizes)).train()
        self._model.to(self._device)
        logits = marian_logits(self._model) if weights else self._model
        self._logits: Logits = torch.compile(logits) if compiled else logits
        self._autocast = contextlib.nullcontext
        if dtype == "bfloat16":
            self._autocast = lambda: torch.autocast(self._device.type, torch.bfloat16)
        self._optimizer = torch.optim.Adam(
            self._model.parameters(),
            lr=1e-4,
            betas=(training["adam_b1"], training["adam_b2"]),
            eps=training["adam_eps"],
            fused=True,
        )
        self._batches = [self._tensors(batch, sizes["bos_id"]) for batch in read(batches)]
        shapes = {(one[0].shape, one[2].shape): one for one in self._batches}
        losses = [float(self._update(*one)) for one in shapes.values()]
        self.round()
        self.facts = {"first_loss": losses[0]}

    def round(self) -> Answer:
        """Trains on each batch once."""
        loss = torch.zeros(())
        start = time.perf_counter()
        for batch in self._batches:
            loss = self._update(*batch)
        wait_for(self._device)
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "loss": float(loss)} | device_memory(self._device)

    def _update(self, inputs: Tensor, real: Tensor, before: Tensor, labels: Tensor) -> Tensor:
        inputs, real, before, labels = (
            x.to(self._device, non_blocking=True) for x in (inputs, real, before, labels)
        )
        with self._autocast():
            logits = self._logits(inputs, real, before)
            loss = F.cross_entropy(
                logits.flatten(0, 1),
                labels.flatten(),
                ignore_index=IGNORED,
                label_smoothing=self._training["label_smoothing"],
            )
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self._training["clip_norm"]:
            nn.utils.clip_grad_norm_(self._model.parameters(), self._training["clip_norm"])
        self._optimizer.step()
        return loss.detach()

    def _tensors(self, batch: Any, bos_id: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns inputs, real, before, labels."""
        before = np.roll(batch.targets, 1, axis=1)
        before[:, 0] = bos_id
        labels = np.where(batch.targets_segment_ids, batch.targets, IGNORED)
        real = torch.from_numpy(batch.inputs_segment_ids != 0)
        real[:, 0] = True  # an empty row: a fully masked softmax is NaN
        inputs, before, labels = (
            torch.from_numpy(x.astype(np.int64)) for x in (batch.inputs, before, labels)
        )
        return inputs, real, before, labels


class Decoding:
    """Hugging Face `generate`: token ids in, token ids out, sorted by length."""

    def __init__(self, *, directory: str, sentences: str, dtype: str, device: str) -> None:
        """Loads the export; with bfloat16 its weights are in bfloat16 too."""
        self._device = start(device)
        self._model = marian(directory).eval().to(self._device, getattr(torch, dtype))
        self._model.generation_config.bad_words_ids = None  # see given.search_rules
        self._sources = read(sentences)

    def round(self, *, beam_size: int, batch: int, count: int, length: int = 0) -> Answer:
        """Translates the first `count` sentences, with `length` > 0 to that number of tokens."""
        sources = self._sources[:count]
        outputs: list[list[int]] = [[] for _ in sources]
        start = time.perf_counter()
        longest_first = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        for first in range(0, len(sources), batch):
            places = longest_first[first : first + batch]
            found = self._generate([sources[i] for i in places], beam_size, length)
            for place, tokens in zip(places, found, strict=True):
                outputs[place] = tokens
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "outputs": outputs} | device_memory(self._device)

    def _generate(self, sources: list[list[int]], beam_size: int, length: int) -> list[list[int]]:
        config, eos = self._model.config, self._model.config.eos_token_id
        width = max(map(len, sources))
        ids = torch.full((len(sources), width), config.pad_token_id)
        mask = torch.zeros_like(ids)
        for row, source in enumerate(sources):
            ids[row, : len(source)] = torch.tensor(source)
            mask[row, : len(source)] = 1
        rules = search_rules(beam_size, length=length)
        of_beams = {"length_penalty": rules.length_penalty, "early_stopping": True}
        with torch.inference_mode():
            found = self._model.generate(
                input_ids=ids.to(self._device),
                attention_mask=mask.to(self._device),
                do_sample=False,
                num_beams=beam_size,
                max_length=rules.length_limit(width) + 1,  # the start token counts
                min_new_tokens=length - 1 if length else None,  # EOS does not
                **(of_beams if beam_size > 1 else {}),
            )
        rows = [row[1:] for row in found.tolist()]
        return [row[: row.index(eos) + 1] if eos in row else row for row in rows]
