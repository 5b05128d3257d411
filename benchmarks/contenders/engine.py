"""CTranslate2, by default with one worker with one thread for each core."""

import math
import time
from pathlib import Path

import ctranslate2

from benchmarks.child import Answer
from benchmarks.contenders.given import read, search_rules
from flaxformer_mt.interop.ctranslate2 import read_pieces
from flaxformer_mt.runtime.host import num_cpus


class Decoding:
    """Token ids in, token ids out; the conversion to pieces is not measured."""

    def __init__(
        self, *, directory: str, sentences: str, dtype: str, device: str, workers: int
    ) -> None:
        """Loads an export.

        Args:
          directory: written by `write_ctranslate2`.
          sentences: file of token ids.
          dtype: CTranslate2's compute type: float32, int8, bfloat16, ...
          device: cpu or gpu.
          workers: number of workers, among which the cores are divided; on a GPU one.
        """
        self._workers = 1 if device == "gpu" else workers
        self._translator = ctranslate2.Translator(
            directory,
            device="cuda" if device == "gpu" else "cpu",
            compute_type=dtype,
            inter_threads=self._workers,
            intra_threads=max(1, num_cpus() // self._workers),
        )
        source, target = (read_pieces(Path(directory), side) for side in ("source", "target"))
        self._ids = {piece: number for number, piece in enumerate(target)}
        self._sources = [
            [source[token] for token in ids[:-1]] for ids in read(sentences)
        ]  # it adds EOS itself

    def round(self, *, beam_size: int, batch: int, count: int, length: int = 0) -> Answer:
        """Translates the first `count` sentences, with `length` > 0 to that number of tokens."""
        sources = self._sources[:count]
        rules = search_rules(beam_size, length=length)
        longest = max(map(len, sources)) + 1
        start = time.perf_counter()
        found = self._translator.translate_batch(
            sources,
            max_batch_size=min(batch, math.ceil(len(sources) / self._workers)),
            beam_size=beam_size,
            length_penalty=rules.length_penalty,
            max_input_length=0,  # no limit
            max_decoding_length=rules.length_limit(longest) - 1,  # EOS is not counted
            min_decoding_length=length - 1 if length else 1,
            return_end_token=True,
        )
        seconds = time.perf_counter() - start
        outputs = [[self._ids[piece] for piece in one.hypotheses[0]] for one in found]
        return {"seconds": seconds, "outputs": outputs}
