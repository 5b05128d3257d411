"""Training sets of WMT by the names of tensorflow-datasets, as in "wmt:europarl_v7".

This module uses only the tables of URLs, members and checksums of tensorflow-datasets. Its readers
need TensorFlow to extract archives (tensorflow/datasets#11058), and hold a whole corpus in memory.
The pairs are the same, except that this module does not drop pairs with an empty side.
"""

from pathlib import Path
from typing import Any

from flaxformer_mt.data.sources.public.text_pair import Side, download_sides, kept_text, near_names


def wmt_text(name: str, languages: tuple[str, str]) -> tuple[Path, Path]:
    """Returns the text files of a WMT set. The first call downloads them.

    Raises ValueError for an unknown name; the message lists the sets of this language pair.
    """

    def write(folder: Path) -> None:
        download_sides(_find(name, languages), folder)

    return kept_text(f"wmt/{name}", languages, write)


def _find(name: str, languages: tuple[str, str]) -> dict[str, Side]:
    # Imported here, because the import takes seconds.
    from tensorflow_datasets.translate.wmt import DATASET_MAP

    every = {key: _sides(table, languages) for key, table in DATASET_MAP.items()}
    available = {key: sides for key, sides in every.items() if sides}
    if name in available:
        return available[name]
    raise ValueError(
        f"there is no WMT set {name!r} from {languages[0]} to {languages[1]}."
        f"{near_names(name, available)} For this pair there are: "
        f"{', '.join(sorted(available)) or 'none'}. Test sets come from sacreBLEU, as in "
        "'sacrebleu:wmt14/full'."
    )


def _sides(table: Any, languages: tuple[str, str]) -> dict[str, Side]:
    """Returns the location of each language of a set; {} unless these are two text files.

    Args:
      table: a `SubDataset` of tensorflow-datasets.
      languages: the two languages, in any order.
    """
    from tensorflow_datasets.core.download.checksums import get_all_url_infos

    others = [language for language in languages if language != table.target]
    if len(others) != 1 or others[0] not in table.sources or table.get_manual_dl_files(others[0]):
        return {}
    urls, members = table.get_url(others[0]), table.get_path(others[0])
    if len(urls) < len(members):
        urls *= len(members)
    sides = {}
    for url, member in zip(urls, members, strict=True):
        language = (member or url).removesuffix(".gz").rpartition(".")[2]
        infos = get_all_url_infos()
        checksum = infos[url].checksum if url in infos else ""
        sides[language] = Side(url=url, member=member, checksum=checksum)
    return sides if set(sides) == set(languages) and url.startswith("http") else {}
