"""The corpora of `mtdata`, an index of 285,000 corpora: OPUS, WMT, ELRC, Paracrawl and others.

`mtdata` runs in its own process, because its index takes 490 MB and it configures the root logger.
Its downloads have no checksums, cannot be resumed, and accept invalid certificates. So `fetch`
downloads the files to the place where `mtdata` expects them.
"""

import contextlib
import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flaxformer_mt.data.sources.public.downloads import fetch
from flaxformer_mt.data.sources.public.text_pair import kept_text, near_names
from flaxformer_mt.data.sources.text_files import one_line


def mtdata_text(name: str, languages: tuple[str, str]) -> tuple[Path, Path]:
    """Returns the text files of a corpus of `mtdata`. The first call downloads them.

    Raises ValueError for an unknown name (with similar names), or if `mtdata` is not installed.
    """

    def write(folder: Path) -> None:
        if importlib.util.find_spec("mtdata") is None:
            raise ValueError(
                f"mtdata:{name} needs the package mtdata: pip install 'flaxformer-mt[corpora]' (in "
                "a checkout: pip install -e '.[corpora]')."
            )
        print(f"Looking up {name} in mtdata; its first index takes a minute", file=sys.stderr)
        command = [sys.executable, "-m", __name__, name, *languages, str(folder)]
        reader = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if reader.returncode:
            raise ValueError(f"mtdata:{name} cannot be read: {reader.stdout or 'see above'}")

    return kept_text(f"mtdata/{name}", languages, write)


def write_text(name: str, languages: tuple[str, str], folder: Path) -> None:
    """Writes the text of both languages to files in `folder`. Imports `mtdata`."""
    from mtdata.cache import Cache
    from mtdata.iso.bcp47 import bcp47
    from mtdata.parser import Parser

    class FetchingCache(Cache):
        """Downloads files with `fetch`."""

        def download(self, url: str, save_at: Path, timeout: Any = None, entry: Any = None) -> Path:
            if not save_at.exists():
                save_at.parent.mkdir(parents=True, exist_ok=True)
                save_at.symlink_to(fetch(url).resolve())
            return save_at

    from tqdm import tqdm  # not needed for translation

    codes = [bcp47(language).lang for language in languages]  # "deu" for "de"
    entry = _find(name, codes)
    order = _columns(entry, codes)
    with tempfile.TemporaryDirectory(dir=folder) as work:  # for archives that mtdata extracts
        paths = FetchingCache(Path(work)).get_entry(entry)
        records = Parser(paths, ext=entry.in_ext or None, ent=entry).read_segs(show_pbar=False)
        with contextlib.ExitStack() as stack:
            files = [
                stack.enter_context(open(folder / f"{language}.txt", "w", encoding="utf-8"))
                for language in languages
            ]
            for record in tqdm(records, unit=" pairs", desc=name, disable=None):
                for file, column in zip(files, order, strict=True):
                    file.write(one_line(record[column] or "") + "\n")  # pyrefly: ignore


def _find(name: str, codes: Sequence[str]) -> Any:
    """Returns the corpus of this name. Raises ValueError for a name that is not in the index."""
    from mtdata.index import INDEX

    entries = {str(did): entry for did, entry in INDEX.entries.items() if len(did.langs) == 2}
    if name in entries:
        return entries[name]
    same_pair = [key for key, entry in entries.items() if sorted(_codes(entry)) == sorted(codes)]
    raise ValueError(
        f"its index has no corpus of this name.{near_names(name, same_pair)} It has "
        f"{len(same_pair):,} from {codes[0]} to {codes[1]}: `mtdata list -l {'-'.join(codes)} -id`."
    )


def _codes(entry: Any) -> list[str]:
    return [tag.lang for tag in entry.did.langs]


def _columns(entry: Any, codes: Sequence[str]) -> list[int]:
    """Returns the columns of the source and the target text in a record."""
    found = _codes(entry)
    if sorted(found) != sorted(codes):
        raise ValueError(
            f"its languages are {' and '.join(found)}, but the configuration translates from "
            f"{codes[0]} to {codes[1]}. Change its languages, or choose another corpus."
        )
    return [found.index(code) for code in codes]


def _main() -> int:
    """Runs `write_text` with the command-line arguments. Prints the message of a failure."""
    messages, sys.stdout = sys.stdout, sys.stderr  # mtdata prints to stdout
    name, source, target, folder = sys.argv[1:]
    try:
        write_text(name, (source, target), Path(folder))
    except Exception as error:  # mtdata raises AssertionError and Exception for unusable data
        print(str(error) or repr(error), end="", file=messages)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(_main())
