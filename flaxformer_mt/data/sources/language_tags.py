"""Tags such as `>>fr<<` before a source text, which select the target language.

With tags, one model can translate into several languages (Johnson et al. 2017, "Google's
Multilingual Neural Machine Translation System"). OPUS-MT and Marian have the same form of tags. In
every vocabulary, a tag is one token, the first of the text.
"""

import re
from collections.abc import Iterable

_TAG = re.compile(r">>([^\s<>]+)<<")


def tag_of(language: str) -> str:
    """Returns `>>fr<<` for "fr"."""
    return f">>{language}<<"


def languages_in(pieces: Iterable[str]) -> tuple[str, ...]:
    """Returns the languages whose tags are pieces of a vocabulary, in the order of the pieces."""
    found = map(_TAG.fullmatch, pieces)
    return tuple(match[1] for match in found if match)


def split_tag(text: str) -> tuple[str, str]:
    """Returns (tag, rest without outer white space), or ("", text) for a text without a tag."""
    match = _TAG.match(text)
    return (match[0], text[match.end() :].strip()) if match else ("", text)


def check_language(language: str) -> None:
    """Raises ValueError for a language code that a tag cannot contain."""
    if not _TAG.fullmatch(tag_of(language)):
        raise ValueError(
            f"a language must be a code such as 'fr' or 'zh-CN', without spaces, < and >, "
            f"got {language!r}."
        )
