"""News, English to Chinese, word by word: the 6,834 pairs of many Transformer tutorials.

    python -m flaxformer_mt.train --config configs/news_en_zh_words.py \
        --workdir runs/news --data.directory PATH/TO/news-zh-en
    python -m flaxformer_mt.evaluate --workdir runs/news --tokenize none

Those tutorials print translations without an end, or with several, full of <UNK>. Two traps:

- The given vocabularies hold no punctuation, so that 11.9 % of the English and 15.3 % of the
  Chinese running words are unknown, the full stop first. Training reports it at the start. The
  search never chooses the unknown word or a second end, and ends every sentence.
- Every line of the test files is also in the training files. `exclude` takes these out; without
  it the score measures memory.

With vocabularies rebuilt from the text: --data.tokenizer.source-vocab "" and
--data.tokenizer.target-vocab ""; with SentencePiece instead also
--data.tokenizer.kind sentencepiece.

Measured: each trains in 8 to 11 minutes of CPU time; 683 test pairs, beam 5, BLEU of words
(nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:2.6.0), and what becomes of
"we should protect environment .":

    given vocabularies  3.61  要 加强 环境 环境 环境 环境 环境 环境 环境 环境 ...
    rebuilt             7.91  要 加强 环境 环境 环境 环境 环境 ... , 要 进一步 加强 环境 。
    SentencePiece       5.68  要 抓好 环境 保护 环境 保护 环境 , 环境 保护 环境 、 环境 、 环境 工作

All outputs end, once, and hold no unknown word. 6,150 pairs are too few to translate news: the
topic is met, the sentence is not, and such a model repeats itself. What a vocabulary lacks, an
output cannot hold: four points of BLEU lie between the given ones and the rebuilt.
"""

from flaxformer_mt.config import Config
from flaxformer_mt.data.pipeline import DataConfig
from flaxformer_mt.data.sources import CorpusConfig
from flaxformer_mt.data.tokenizer import TokenizerConfig
from flaxformer_mt.decoding.config import DecodingConfig
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.training.config import TrainingConfig

config = Config(
    data=DataConfig(
        directory="data/news-zh-en",
        source_language="en",
        target_language="zh",
        train=CorpusConfig(source=("en.txt",), target=("cn.txt",)),
        test=CorpusConfig(source=("en.test.txt",), target=("cn.test.txt",)),
        exclude=("test",),
        tokenizer=TokenizerConfig(
            kind="word",
            shared=False,
            source_vocab="en.txt.vocab.tsv",
            target_vocab="cn.txt.vocab.tsv",
        ),
        tokens_per_batch=1024,
        num_buckets=6,
    ),
    model=TransformerConfig(
        d_model=128,
        d_ff=512,
        num_heads=4,
        num_encoder_layers=2,
        num_decoder_layers=2,
        norm="pre",
        tie_embeddings="target",
        dropout=0.2,
    ),
    training=TrainingConfig(
        num_steps=2000,
        learning_rate=3e-3,
        warmup_steps=400,
        checkpoint_every=75,
        average_last=5,
    ),
    decoding=DecodingConfig(beam_size=5, length_penalty=1.0),
)
