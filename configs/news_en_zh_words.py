"""News, English to Chinese, word by word: the 6,834 pairs of many Transformer tutorials.

    python -m flaxformer_mt.train --config configs/news_en_zh_words.py \
        --workdir runs/news --data.directory PATH/TO/news-zh-en
    python -m flaxformer_mt.evaluate --workdir runs/news --tokenize none

The translations in those tutorials do not end, or end several times, and contain many <UNK>.
The data has two problems:

- The given vocabularies have no punctuation. So 11.9 % of the English and 15.3 % of the Chinese
  running words are unknown, most often the full stop. Training reports this at the start. The
  search never chooses the unknown word or a second end, and ends every sentence, if need be at the
  length limit.
- Every line of the test files is also in the training files. `exclude` removes these lines from
  training. Without `exclude` the score measures memorised sentences.

The table gives word-level BLEU (tok:none, beam 5, the mean of the last 5 checkpoints) of the 683
test lines, after training on the 6,150 pairs without a test line. (One test line occurs twice among
the 6,834.) Other jobs used the cores too:

                          BLEU   perfect*   CPU time   words repeated   unknown zh words, training
    given vocabularies    4.04      67.73     10 min           17.3 %                      15.32 %
    rebuilt from the text 8.35      85.48      8 min            8.3 %                       3.34 %
    SentencePiece         6.26      99.84      7 min            4.8 %                       0.00 %

    * BLEU of the references themselves, tokenized and detokenized without unknown tokens.

The second line needs --data.tokenizer.source-vocab "" --data.tokenizer.target-vocab "". The third
also needs --data.tokenizer.kind sentencepiece (6.7 epochs; the others have 10.4, because their
sentences are shorter). The translations of "we should protect environment ." are

    given          要 加强 环境, and 环境 again 20 times
    rebuilt        要 要 要 加强 环境, and 环境 again 10 times, then , 要 要 加强 环境 。
    SentencePiece  要 加强 环境 保护 环境 保护 环境 保护 环境 , 应当 保护 环境 环境 环境 环境

No output contains an unknown word, and each of the first 200 test lines has one end. But with the
given vocabularies 10 of the 200 lines end only at the length limit (with the other vocabularies,
0). A model that cannot write the full stop seldom ends a sentence: with decoding.allow_unknown the
same model reaches the limit in none of the 200 lines. There it repeats 10 % of the words,
not 19 % (17.3 % in the table are of all 683 lines).

The recipe was chosen on 400 held-out training pairs, with the given vocabularies, one run each
(with an older initialisation of W^Q, W^K and W^V, of twice the variance):

    norm  tokens  dropout  rate    steps  BLEU
    post  2,048   0.3      3e-3    1,500  1.45
    pre   1,024   0.3      2e-3    2,000  2.34
    pre     512   0.3      1.5e-3  4,000  2.37
    pre   1,024   0.2      3e-3    2,000  3.89   (7.90 on lines of the training text)

Without dropout and smoothing, a model with rebuilt vocabularies that is trained on 64 pairs only
reaches 100.00 after 250 updates.
"""

from flaxformer_mt.config import Config
from flaxformer_mt.data.config import DataConfig
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.tokenization.config import TokenizerConfig
from flaxformer_mt.model.config import TransformerConfig
from flaxformer_mt.training.config import TrainingConfig
from flaxformer_mt.translation.config import DecodingConfig

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
