"""Corpora of OPUS (opus.nlpl.eu), by name or as a downloaded zip file in "moses" format."""

import hashlib
from pathlib import Path

from flaxformer_mt.data.sources.public.archives import extract
from flaxformer_mt.data.sources.public.text_pair import Side, download_sides, kept_text

_OPUS = "https://object.pouta.csc.fi/OPUS-{name}/{version}/moses/{first}-{second}.txt.zip"


def opus_text(name: str, version: str, languages: tuple[str, str]) -> tuple[Path, Path]:
    """Returns the text files of a corpus of OPUS. The first call downloads them."""
    first, second = sorted(languages)
    url = _OPUS.format(name=name, version=version, first=first, second=second)
    sides = {language: Side(url=url, member=f"*.{language}") for language in languages}
    return kept_text(
        f"opus/{name}/{version}", languages, lambda folder: download_sides(sides, folder)
    )


def zip_text(path: Path, languages: tuple[str, str]) -> tuple[Path, Path]:
    """Returns the text files of a zip file in "moses" format: its members "*.de" and "*.en"."""
    about = path.stat()
    version = f"{path.resolve()} {about.st_size} {about.st_mtime_ns}".encode()
    name = f"zip/{path.stem}-{hashlib.sha256(version).hexdigest()[:12]}"

    def write(folder: Path) -> None:
        extract(path, {f"*.{language}": folder / f"{language}.txt" for language in languages})

    return kept_text(name, languages, write)
