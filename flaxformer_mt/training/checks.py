"""Checks of settings at the start of a training run.

Loading a saved config skips them, so a model whose settings fail the checks can still translate.
"""

from collections.abc import Iterable, Iterator

from flaxformer_mt.config import Config
from flaxformer_mt.data.sources.corpora import CorpusConfig
from flaxformer_mt.data.sources.language_tags import split_tag
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.tokenization.tokenizer import Tokenizer
from flaxformer_mt.training.config import TrainingConfig

_TWO_VOCABULARIES = (
    "model.tie_embeddings='all' needs one vocabulary for both languages, but source and target "
    "have different ones: use --data.tokenizer.shared True, or --model.tie-embeddings target"
)


def check_settings(config: Config) -> None:
    """Raises ValueError for settings that would have no effect or a wrong one."""
    for problem in (*_validation_problems(config), *_training_problems(config)):
        raise ValueError(problem)


def check_tied_embeddings(config: Config, tokenizer: Tokenizer) -> None:
    """Raises ValueError if one matrix would embed the tokens of two different vocabularies."""
    if config.model.tie_embeddings == "all" and tokenizer.source.pieces != tokenizer.target.pieces:
        raise ValueError(_TWO_VOCABULARIES)


def check_tags(tokenizer: Tokenizer, held_out: Iterable[Pair]) -> None:
    """Raises ValueError if the model needs language tags and held-out text has none."""
    known = tokenizer.languages
    if tokenizer.needs_tag and any(
        source.strip() and split_tag(source)[0][2:-2] not in known for source, _ in held_out
    ):
        raise ValueError(
            f"this model has several target languages ({', '.join(known)}): name the language of "
            "each corpus in target_languages of data.train, data.validation and data.test"
        )


def _validation_problems(config: Config) -> Iterator[str]:
    """Yields an error for each setting that needs validation, if the run has none."""
    no_text = config.data.validation == CorpusConfig()
    for name, meaning in (
        ("average_best", "averages the checkpoints with the best validation BLEU"),
        ("patience", "waits for a better validation BLEU"),
    ):
        if not getattr(config.training, name):
            continue
        if no_text:
            yield (
                f"training.{name} {meaning}, but data.validation lists no text: give "
                f"data.validation.source and data.validation.target, or set training.{name} to 0"
            )
        if not config.training.validate_every:
            yield (
                f"training.{name} {meaning}, but training.validate_every is 0: give the number of "
                f"updates between two validations, or set training.{name} to 0"
            )


def _training_problems(config: Config) -> Iterator[str]:
    """Yields an error for each other setting that would have no effect or a wrong one."""
    training, model, tokenizer = config.training, config.model, config.data.tokenizer
    existing = any(tokenizer.existing_files()) or tokenizer.kind == "marian"
    learned = not (existing or training.init_from or config.data.prepared)
    if model.tie_embeddings == "all" and not tokenizer.shared and learned:
        yield _TWO_VOCABULARIES
    if training.lora_target != TrainingConfig.lora_target and not training.lora_rank:
        yield (
            "training.lora_target names the kernels that get adapters, but training.lora_rank is "
            "0, so there are no adapters; give a rank, such as 8"
        )
    if training.lora_rank and not training.init_from:
        yield (
            "training.lora_rank adds adapters to the frozen matrices of a trained model, but "
            "training.init_from is empty, so these matrices would be random; set it to the workdir "
            "of a trained model, or set training.lora_rank to 0"
        )
    if training.optimizer in ("lion", "adafactor"):
        for name in ("adam_b1", "adam_b2", "adam_eps"):
            if getattr(training, name) != getattr(TrainingConfig, name):
                yield (
                    f"training.{name} has no effect with training.optimizer {training.optimizer}: "
                    f"leave it at {getattr(TrainingConfig, name)}"
                )
    rates = model.dropout, model.attention_dropout, model.activation_dropout
    if training.r_drop and not any(rates):
        yield (
            "training.r_drop compares two dropout masks, but all dropout rates of the model are "
            "0; give model.dropout, or set training.r_drop to 0"
        )
