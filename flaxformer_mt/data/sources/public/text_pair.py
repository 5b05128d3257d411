"""Stores a public corpus as two local text files, one for each language."""

import dataclasses
import difflib
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from flaxformer_mt.data.sources.public.archives import extract
from flaxformer_mt.data.sources.public.downloads import corpora_home, fetch
from flaxformer_mt.storage.paths import lock


@dataclasses.dataclass(frozen=True, kw_only=True)
class Side:
    """The location of the text of one language."""

    url: str
    member: str = ""
    """Pattern, such as "*.de", of a member of the archive at `url`; "" = the file itself."""
    checksum: str = ""
    """MD5 or SHA-256 of the file at `url`; "" = unknown."""

    @property
    def suffix(self) -> str:
        """The suffix of a compressed text, which stays compressed; else ""."""
        suffix = Path(self.member or self.url).suffix
        return suffix if suffix in (".gz", ".xz") else ""


def kept_text(
    name: str, languages: tuple[str, str], write: Callable[[Path], None]
) -> tuple[Path, Path]:
    """Returns the source and target text files of a corpus. The first call makes them.

    Args:
      name: folder name of the corpus.
      languages: source and target language. Both directions share the files.
      write: writes `LANGUAGE.txt` (or .txt.gz, .txt.xz) for both languages into a folder.

    Raises ValueError for an invalid language code.
    """
    for language in languages:
        if not re.fullmatch(r"[\w-]+", language):
            raise ValueError(f"a language must be a code such as 'de', got {language!r}.")
    folder = corpora_home() / "text" / name / "-".join(sorted(languages))
    if not (found := _find(folder, languages)):
        with lock(folder):
            if not _find(folder, languages):  # another process may have made it meanwhile
                _make(folder, write)
        found = _find(folder, languages)
    source, target = found
    return source, target


def _find(folder: Path, languages: tuple[str, str]) -> list[Path]:
    """Returns the text files in a folder; [] if one is missing."""
    found = [file for language in languages for file in folder.glob(f"{language}.txt*")]
    return found if len(found) == len(languages) else []


def _make(folder: Path, write: Callable[[Path], None]) -> None:
    """Makes a folder atomically, so that an interruption leaves no incomplete text."""
    for old in (folder, *folder.parent.glob(f".{folder.name}.*")):  # of a killed process
        shutil.rmtree(old, ignore_errors=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        write(unfinished)
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def near_names(name: str, names: Collection[str]) -> str:
    """Returns a sentence with the names most similar to an unknown name; "" if there are none."""
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def download_sides(sides: Mapping[str, Side], folder: Path) -> None:
    """Downloads the text of each language and writes `LANGUAGE.txt` into a folder."""
    wanted: dict[Path, dict[str, Path]] = {}
    for language, side in sides.items():
        path = folder / f"{language}.txt{side.suffix}"
        wanted.setdefault(fetch(side.url, side.checksum), {})[side.member] = path
    for archive, members in wanted.items():
        if "" in members:
            shutil.copyfile(archive, members[""])
        else:
            print(f"Extracting {', '.join(members)} from {archive}", file=sys.stderr)
            extract(archive, members)
