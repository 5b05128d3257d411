"""The toy of many tutorials: "ich mochte ein bier" -> "i want a beer", with its attention.

    python examples/toy_de_en.py

It trains configs/toy_de_en.py, translates the 24 sentences, and prints the attention matrices that
the model returns for one of them.
"""

import tempfile

from flaxformer_mt.config import SHIPPED, load_config
from flaxformer_mt.inspection.capture import KINDS, capture
from flaxformer_mt.train import train
from flaxformer_mt.translation.translator import Translator
from small_runs import show

SENTENCES = SHIPPED / "toy_de_en.tsv"


def main(sentence: str = "ich mochte ein bier") -> None:
    """Trains, translates, and prints the attention of each kind and head."""
    with tempfile.TemporaryDirectory() as workdir:
        train(load_config("configs/toy_de_en.py"), workdir, quiet=True)
        translator = Translator.load(workdir)
    pairs = [line.split("\t") for line in SENTENCES.read_text(encoding="utf-8").splitlines()]
    found = [best.text for best, *_ in translator.translate([source for source, _ in pairs])]
    right = sum(text == target for text, (_, target) in zip(found, pairs, strict=True))
    print(f"\n{right} of {len(pairs)} sentences are right")
    maps = capture(translator, sentence)
    print(f"{maps.source_text} -> {maps.target_text}")
    for kind in KINDS:
        weights, queries, keys = maps.labelled(kind)
        layers, heads, length, width = weights.shape
        print(f"\n{kind} attention: {layers} layer, {heads} heads, {length} queries, {width} keys")
        for head in range(heads):
            rows = [
                (query, *map(float, row))
                for query, row in zip(queries, weights[0, head].round(2), strict=True)
            ]
            show((f"head {head}", *keys), rows)


if __name__ == "__main__":
    main()
