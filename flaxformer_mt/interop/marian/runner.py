"""An exported directory in `transformers`: it knows the directory and the text, not the model.

Its beam search is ours with these rules: `length_normalization` "average", `forced_end` "free" and
`early_stopping` "heuristic". What it never chooses it reads from generation_config.json.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flaxformer_mt.data.tokenization.vocabulary import without_line_breaks
from flaxformer_mt.interop.runner import Translation, group_by_limit
from flaxformer_mt.runtime.cpus import num_cpus
from flaxformer_mt.translation.config import DecodingConfig

ROWS = 32


class MarianRunner:
    """Translates on the CPU, by PyTorch."""

    def __init__(self, directory: Path, config: DecodingConfig) -> None:
        """Loads a directory that `write_marian` wrote.

        Args:
          directory: where it is.
          config: for beam_size, length_penalty and the limits of length.

        Raises ValueError if torch or transformers are not installed, or for greedy search, of which
        `transformers` reports no score.
        """
        if config.beam_size < 2:
            raise ValueError("verify a Marian export with a beam of at least 2, not greedy search")
        torch, transformers = _import_torch_and_transformers()
        torch.set_num_threads(num_cpus())
        self.versions = {"torch": torch.__version__, "transformers": transformers.__version__}
        self._config, self._torch = config, torch
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it recommends sacremoses, which no step here uses
            self._tokenizer = transformers.MarianTokenizer.from_pretrained(directory)
        self._model = transformers.MarianMTModel.from_pretrained(directory).eval()

    def translate(self, lines: Sequence[str]) -> list[Translation]:
        """The best translation of every line, none of which is blank."""
        lengths = [len(ids) for ids in self._tokenizer(list(lines))["input_ids"]]
        found: dict[int, Translation] = {}
        for limit, places in group_by_limit(lengths, self._config).items():
            for start in range(0, len(places), ROWS):
                batch = places[start : start + ROWS]
                translations = self._search([lines[place] for place in batch], limit)
                found.update(zip(batch, translations, strict=True))
        return [found[place] for place in range(len(lines))]

    def _search(self, lines: list[str], limit: int) -> list[Translation]:
        with self._torch.inference_mode():
            found = self._model.generate(
                **self._tokenizer(lines, padding=True, return_tensors="pt"),
                num_beams=self._config.beam_size,
                num_return_sequences=1,
                length_penalty=self._config.length_penalty,
                early_stopping=False,
                max_length=limit + 1,  # there the start token counts
                return_dict_in_generate=True,
                output_scores=True,
            )
        texts = self._tokenizer.batch_decode(found.sequences, skip_special_tokens=True)
        scores = found.sequences_scores.tolist()
        pairs = zip(texts, scores, strict=True)
        return [Translation(without_line_breaks(text), score) for text, score in pairs]


def _import_torch_and_transformers() -> tuple[Any, Any]:
    try:
        import torch  # pyright: ignore[reportMissingImports]
        import transformers  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ValueError(
            "verifying a Marian export needs torch and transformers: pip install -e '.[parity]'"
        ) from error
    return torch, transformers
