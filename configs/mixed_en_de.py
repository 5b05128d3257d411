"""English-German from several sources, 352,376 pairs: for two CPU cores and two and a half hours.

    python -m flaxformer_mt.train --config configs/mixed_en_de.py \
        --workdir runs/mixed --data.directory PATH/TO/data

The data directory has four folders: `mixed-en-de` (Europarl, manuals and user interfaces of KDE,
the PHP manual, chat), `tatoeba-en-de`, `multi30k` and `newstest-en-de`. The test set, newstest2014,
is another kind of text than the training text.

A deep encoder (6 layers) reads the source once, and a shallow decoder (2 layers) makes each token
of the translation fast (Kasai et al. 2021). Scores with beam 4 and the mean of the last 5
checkpoints (cased, tok:13a; chrF):

    newstest2014, 3,003 pairs                      BLEU  5.64   chrF 31.9
    newstest2013, 3,000 pairs                      BLEU  6.49   chrF 32.3
    valid of Tatoeba, 2,000 pairs                  BLEU 31.59   chrF 52.9
    test_2016_flickr of Multi30k, 1,000 pairs      BLEU 29.92   chrF 55.8

    python -m flaxformer_mt.evaluate --workdir runs/mixed
    python -m flaxformer_mt.evaluate --workdir runs/mixed \
        --source PATH/TO/data/multi30k/test_2016_flickr.en \
        --reference PATH/TO/data/multi30k/test_2016_flickr.de

The model was trained on an H100 that other trainings used too; its parameters were rounded to
float16 before these scores. On two CPU cores an update takes 1.0 s (measured over 24 updates), so
9,000 updates (2.5 epochs) take about two and a half hours. Two other models for the same time were
worse on Tatoeba's valid and newstest2014, joined into one set. There, this model has 10.7 BLEU, one
with d_model 256 (5,800 updates) 9.2, and one with Muon (5,100 updates) 9.9. Muon takes 1.8 times as
long for an update of this size.

This CPU has no bfloat16 instructions. On CPUs that have them (Zen 4 and 5 in
`benchmarks/README.md`), `--model.dtype bfloat16` is faster.

News shares few words with the training text, and has none of its kinds of sentences. Short plain
sentences come out right, news does not:

    Yesterday, Gutacht's Mayor gave a clear answer to this question.
    -> Gestern hat die Vöffentlich einen klaren Antwort auf diese Frage gegeben.
    Two sets of lights so close to one another: intentional or just a silly error?
    -> Zwei Städte von Lichtern, um einen anderen: Absicht oder nur ein Fehler zu schließen?

`configs/mixed_en_de_gpu.py` is a larger model for a GPU.
"""

from flaxformer_mt.config import Config
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.translation.config import DecodingConfig

TRAIN = (
    *(
        f"mixed-en-de/{name}.{{}}.xz"
        for name in ("bcontrast-chat", "europarl20k", "kde4-docs", "kde4-ui", "php-docs")
    ),
    "tatoeba-en-de/train.{}.xz",
    "multi30k/train.{}",
)


def corpus(*files: str) -> CorpusConfig:
    """Text files whose names have a place for the language."""
    source, target = (tuple(file.format(language) for file in files) for language in ("en", "de"))
    return CorpusConfig(source=source, target=target)


config = Config(
    data=DataConfig(
        directory="data",
        source_language="en",
        target_language="de",
        train=corpus(*TRAIN),
        validation=corpus("tatoeba-en-de/valid.{}"),
        test=corpus("newstest-en-de/newstest2014.{}"),
        exclude=("validation", "test"),
        tokenizer=TokenizerConfig(vocab_size=8000),
        batching="pack",
        max_source_length=96,
        max_target_length=96,
        tokens_per_batch=2048,
    ),
    model=TransformerConfig(
        d_model=192,
        d_ff=768,
        num_heads=4,
        num_encoder_layers=6,
        num_decoder_layers=2,
        dropout=0.1,
        norm="pre",
    ),
    training=TrainingConfig(
        num_steps=9000,
        learning_rate=2e-3,
        warmup_steps=600,
        schedule="cosine",
        validate_every=1500,
        validation_pairs=200,
        checkpoint_every=250,
        average_last=5,
    ),
    decoding=DecodingConfig(beam_size=4, length_penalty=1.0),
)
