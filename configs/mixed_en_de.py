"""English-German from several sources, 352,376 pairs: for two CPU cores and an hour.

    python -m flaxformer_mt.train --config configs/mixed_en_de.py \
        --workdir runs/mixed --data.directory PATH/TO/data --model.dtype bfloat16

The data directory has four folders: `mixed-en-de` (Europarl, manuals and user interfaces of KDE,
the PHP manual, chat), `tatoeba-en-de`, `multi30k` and `newstest-en-de`. The test set, newstest2014,
is another kind of text than the training text.

A deep encoder (6 layers) reads the source once, and a shallow decoder (2 layers) makes each token
of the translation fast (Kasai et al. 2021). Scores with beam 4 and the mean of the last 5
checkpoints (cased, tok:13a; chrF), after training on two Zen 5 cores:

    newstest2014, 3,003 pairs                      BLEU 11.32   chrF 40.5
    newstest2013, 3,000 pairs                      BLEU 12.21   chrF 40.5
    valid of Tatoeba, 2,000 pairs                  BLEU 39.23   chrF 59.5
    test_2016_flickr of Multi30k, 1,000 pairs      BLEU 36.48   chrF 62.5

    python -m flaxformer_mt.evaluate --workdir runs/mixed
    python -m flaxformer_mt.evaluate --workdir runs/mixed \
        --source PATH/TO/data/multi30k/test_2016_flickr.en \
        --reference PATH/TO/data/multi30k/test_2016_flickr.de

There it trains on 7,100 target tokens/s in bfloat16, and 5,500 in float32. So its 26.6 million
tokens (4.4 epochs) take 62 or 81 minutes; other programs interrupted this run. CPUs without
bfloat16 instructions need float32, the default. On two AVX2 cores, `--training.num-steps 3000`
takes about two and a half hours (estimated, not scored).

An earlier recipe had Adam, sinusoids and 9,000 updates of 2,048 tokens (18.4 million tokens): 5.64,
6.49, 31.59 and 29.92 BLEU. Which of the changes helps most was not measured.

News shares few words with the training text, and has none of its kinds of sentences. Everyday
sentences come out right, news does not:

    I have been learning German for two years, but I still make many mistakes.
    -> Ich lerne schon seit zwei Jahren Deutsch, aber ich mache noch viele Fehler.
    A man in a blue shirt is standing on a ladder cleaning a window.
    -> Ein Mann in einem blauen Hemd steht auf einer Leiter und reinigt ein Fenster.
    Two sets of lights so close to one another: intentional or just a silly error?
    -> Zwei Sichtfelder, die auf einem anderen liegt: Absicht oder nur ein silhafter Fehler?

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
        tokens_per_batch=4096,
    ),
    model=TransformerConfig(
        d_model=192,
        d_ff=768,
        num_heads=4,
        num_encoder_layers=6,
        num_decoder_layers=2,
        dropout=0.1,
        norm="pre",
        positions="rotary",
    ),
    training=TrainingConfig(
        num_steps=6500,
        optimizer="muon",
        learning_rate=6e-3,
        warmup_steps=600,
        schedule="cosine",
        validate_every=1500,
        validation_pairs=200,
        checkpoint_every=250,
        average_last=5,
    ),
    decoding=DecodingConfig(beam_size=4, length_penalty=1.0),
)
