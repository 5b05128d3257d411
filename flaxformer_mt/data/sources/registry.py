"""The kinds of pair sources, and the meaning of specifications such as "tfds:NAME:SPLIT".

To add a source, write a function that opens it as a sequence of records (a list of `Pair` is one)
and add a `SourceKind` to `SOURCE_KINDS`. Nothing else needs to change.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from flaxformer_mt.data.sources.demo_text import open_demo
from flaxformer_mt.data.sources.files import PACKED, existing_file
from flaxformer_mt.data.sources.public.mtdata_corpora import mtdata_text
from flaxformer_mt.data.sources.public.multi30k import multi30k_text
from flaxformer_mt.data.sources.public.opus import opus_text, zip_text
from flaxformer_mt.data.sources.public.test_sets import sacrebleu_text
from flaxformer_mt.data.sources.public.wmt import wmt_text
from flaxformer_mt.data.sources.quarantine import Record
from flaxformer_mt.data.sources.records import (
    Rows,
    hugging_face_files,
    open_hugging_face,
    parquet_blocks,
)
from flaxformer_mt.data.sources.text_files import (
    BlockOfRecords,
    parse_jsonl,
    parse_tsv,
    parsed_blocks,
)
from flaxformer_mt.data.sources.tfds import open_tfds
from flaxformer_mt.storage.paths import AnyPath, join

Languages = tuple[str, str]
"""Source and target language."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceRequest:
    """A specification of a source, with the settings to open it in any process."""

    spec: str
    directory: AnyPath
    """Relative file names start here."""
    languages: Languages

    @property
    def kind(self) -> "SourceKind":
        """The kind of the source."""
        return find_source_kind(self.spec)[0]

    @property
    def match(self) -> re.Match[str]:
        """The match of the specification with the pattern of its kind."""
        return find_source_kind(self.spec)[1]

    @property
    def file(self) -> AnyPath:
        """The path of the file that the specification names."""
        return join(self.directory, self.spec)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceKind:
    """One kind of pair source. It has one of `text_files`, `blocks` and `open`.

    These functions raise ValueError or FileNotFoundError, with a remedy in the message.
    """

    pattern: str
    """Regular expression that matches the whole specification."""
    form: str
    """The specification in error messages; "" = not shown."""
    text_files: Callable[[SourceRequest], tuple[Path, Path]] | None = None
    """Returns the two local text files of the source, one sentence a line. It may download them."""
    blocks: Callable[[SourceRequest, int], Iterator[BlockOfRecords]] | None = None
    """Yields the blocks of a file of pairs. Takes the request and the size of a block."""
    open: Callable[[SourceRequest], Sequence[Record] | Rows] | None = None
    """Returns the records of any other source, with random access."""
    is_file: bool = False
    """Whether the specification is a file name or a pattern of file names."""
    files: Callable[[SourceRequest], tuple[Path, ...]] = lambda request: ()
    """Returns the files of a source with `is_file` false, to detect changes."""


_PACKED = f"({'|'.join(map(re.escape, PACKED))})?"
_NAME = r"\w[\w.+-]*"


def _refuse_grammar(request: SourceRequest) -> list[Record]:
    raise ValueError(
        f"the package no longer contains the text of {request.spec!r}. Use 'demo:train', "
        "'demo:validation' or 'demo:test', which begin with the same pairs."
    )


def _public_kind(pattern: str, form: str, text: Callable[..., tuple[Path, Path]]) -> SourceKind:
    """Returns a kind of public corpora, which are downloaded the first time.

    Args:
      pattern: its groups are the first arguments of `text`.
      form: the specification in error messages.
      text: takes these groups and the languages, and returns the text files.
    """
    return SourceKind(
        pattern=pattern,
        form=form,
        text_files=lambda request: text(*request.match.groups(), request.languages),
    )


SOURCE_KINDS = (
    SourceKind(
        # A TFDS name may end with ":VERSION", and a split may contain a slice.
        pattern=r"tfds:(?P<name>[^:\[]+(:\d[\d.*]*)?):(?P<split>.+)",
        form='"tfds:NAME:SPLIT", such as "tfds:wmt14_translate/de-en:train"',
        open=lambda request: open_tfds(
            request.match["name"], request.match["split"], request.languages
        ),
    ),
    SourceKind(
        pattern=r"demo:(?P<split>train|everyday|validation|test)(:(?P<count>[1-9]\d*))?",
        form='"demo:train", "demo:everyday", "demo:validation", "demo:test", or the first pairs, '
        '"demo:train:1000"',
        open=lambda request: open_demo(
            request.match["split"], int(request.match["count"] or 0), request.languages
        ),
    ),
    _public_kind(rf"wmt:({_NAME})", '"wmt:NAME", such as "wmt:europarl_v7"', wmt_text),
    _public_kind(
        rf"sacrebleu:({_NAME}(?:/{_NAME})?)",
        '"sacrebleu:NAME", such as "sacrebleu:wmt14/full"',
        sacrebleu_text,
    ),
    _public_kind(
        rf"opus:({_NAME})/({_NAME})", '"opus:NAME/VERSION", such as "opus:Europarl/v8"', opus_text
    ),
    SourceKind(
        pattern=rf"multi30k:(?P<split>{_NAME})",
        form='"multi30k:PART", such as "multi30k:train"',
        text_files=lambda request: multi30k_text(
            request.match["split"], request.languages, request.directory
        ),
    ),
    _public_kind(
        rf"mtdata:({_NAME})",
        '"mtdata:ID", such as "mtdata:Statmt-europarl-10-deu-eng"',
        mtdata_text,
    ),
    SourceKind(
        pattern=r".*\.zip",
        form='"file.zip" (of OPUS, with members such as *.de and *.en)',
        text_files=lambda request: zip_text(existing_file(request.file), request.languages),
    ),
    SourceKind(
        pattern=r"hf:(?P<name>[^:\[]+):(?P<split>.+)",
        form='"hf:NAME:SPLIT", such as "hf:wmt/wmt14#de-en:train"',
        open=lambda request: open_hugging_face(
            request.match["name"], request.match["split"], request.languages
        ),
        files=lambda request: hugging_face_files(request.match["name"]),
    ),
    SourceKind(
        pattern=r".*\.parquet",
        form='"file.parquet"',
        is_file=True,
        blocks=lambda request, size: parquet_blocks(
            existing_file(request.file), request.languages, size
        ),
    ),
    SourceKind(
        pattern=rf".*\.tsv{_PACKED}",
        form='"file.tsv" (also .gz, .xz, .zst)',
        is_file=True,
        blocks=lambda request, size: parsed_blocks(
            parse_tsv, request.file, request.languages, size
        ),
    ),
    SourceKind(
        pattern=rf".*\.jsonl{_PACKED}",
        form='"file.jsonl" (also .gz, .xz, .zst)',
        is_file=True,
        blocks=lambda request, size: parsed_blocks(
            parse_jsonl, request.file, request.languages, size
        ),
    ),
    # Configurations of earlier versions still load, although this text no longer exists.
    SourceKind(pattern="grammar:.*", form="", open=_refuse_grammar),
)


def find_source_kind(spec: str) -> tuple[SourceKind, re.Match[str]]:
    """Returns the kind and the match of a specification. Raises ValueError for an unknown kind."""
    for kind in SOURCE_KINDS:
        if match := re.fullmatch(kind.pattern, spec):
            return kind, match
    forms = "; ".join(kind.form for kind in SOURCE_KINDS if kind.form)
    raise ValueError(f"{spec!r} is not a source of sentence pairs; expected one of: {forms}.")
