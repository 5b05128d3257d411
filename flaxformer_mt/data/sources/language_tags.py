"""Tags such as `>>fr<<` before a source text, which say into which language to translate it.

One model can so serve many languages (Johnson et al. 2017, "Google's Multilingual Neural Machine
Translation System"). The form is that of OPUS-MT and Marian. Of every vocabulary a tag is one
token, which stands first, and nothing is ever made of it but the choice of a language.
"""

import dataclasses
import re
from collections.abc import Iterable

from flaxformer_mt.data.sources.pair import Pair, PairSource

_TAG = re.compile(r">>([^\s<>]+)<<")


def tag_of(language: str) -> str:
    """`>>fr<<` of "fr"."""
    return f">>{language}<<"


def languages_in(pieces: Iterable[str]) -> tuple[str, ...]:
    """The languages whose tags are among the pieces of a vocabulary, in their order."""
    found = map(_TAG.fullmatch, pieces)
    return tuple(match[1] for match in found if match)


def split_tag(text: str) -> tuple[str, str]:
    """The tag that a text begins with, or "", and the rest without the space around it."""
    match = _TAG.match(text)
    return (match[0], text[match.end() :].strip()) if match else ("", text)


def check_language(language: str) -> None:
    """Raises ValueError for a name that no tag can hold."""
    if not _TAG.fullmatch(tag_of(language)):
        raise ValueError(
            f"a language is named by a code such as 'fr' or 'zh-CN', without spaces and brackets, "
            f"got {language!r}."
        )


@dataclasses.dataclass(frozen=True, eq=False)
class TaggedPairs:
    """The pairs of a source, each with the tag of its target language before its source text."""

    source: PairSource
    language: str

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Pair:
        pair = self.source[index]
        return pair._replace(source=f"{tag_of(self.language)} {pair.source}")
