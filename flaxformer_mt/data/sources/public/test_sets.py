"""Test sets that sacreBLEU knows, as in "sacrebleu:wmt14/full"."""

import copy
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

from flaxformer_mt.data.sources.public.downloads import fetch
from flaxformer_mt.data.sources.public.text_pair import kept_text, near_names


def sacrebleu_text(name: str, languages: tuple[str, str]) -> tuple[Path, Path]:
    """Returns the text files of a test set. The first call downloads them.

    It uses the first of several references.

    Raises ValueError for an unknown name (with similar names).
    """
    pair = "-".join(languages)

    def write(folder: Path) -> None:
        _write(_find(name, pair), languages, folder)

    # One folder for each direction: WMT test sets since 2019 differ between directions.
    return kept_text(f"sacrebleu/{name}/{pair}", languages, write)


def _find(name: str, pair: str) -> Any:
    import sacrebleu
    from sacrebleu.utils import get_available_testsets_for_langpair

    if pair in getattr(sacrebleu.DATASETS.get(name), "langpairs", {}):
        return sacrebleu.DATASETS[name]
    names = get_available_testsets_for_langpair(pair)
    raise ValueError(
        f"sacreBLEU has no test set {name!r} from {pair.replace('-', ' to ', 1)}."
        f"{near_names(name, names)} For this pair it has: {', '.join(names) or 'none'}."
    )


def _write(dataset: Any, languages: tuple[str, str], folder: Path) -> None:
    from sacrebleu.utils import extract_tarball

    # sacreBLEU does not notice a file that an interrupted start left incomplete. So it works on a
    # copy of its data set in a new folder, with files that `fetch` downloaded and verified.
    dataset = copy.copy(dataset)
    dataset._outdir, dataset._rawdir = str(folder / "work"), str(folder / "work" / "raw")
    os.makedirs(dataset._rawdir)
    for url, md5 in zip(dataset.data, dataset.md5 or [""] * len(dataset.data), strict=True):
        archive = os.path.join(dataset._rawdir, dataset._get_tarball_filename(url))
        shutil.copyfile(fetch(url, md5), archive)
        with warnings.catch_warnings():  # since Python 3.12, tarfile warns of a new default
            warnings.simplefilter("ignore", DeprecationWarning)
            extract_tarball(archive, dataset._rawdir)
    pair = "-".join(languages)
    files = dataset.get_source_file(pair), dataset.get_reference_files(pair)[0]
    for language, file in zip(languages, files, strict=True):
        os.replace(file, folder / f"{language}.txt")
    shutil.rmtree(folder / "work")
