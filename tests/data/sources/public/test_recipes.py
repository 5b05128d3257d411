"""Every shipped recipe of public text downloads, extracts and reads it."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest
from public_web import STATMT, lines, public_archives, zipped

from flaxformer_mt.config import load_config
from flaxformer_mt.data.sources.corpora import read_corpora
from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.data.sources.registry import SourceRequest

CONFIGS = Path(__file__).parents[4] / "configs"
PUBLIC = ("wmt:", "sacrebleu:", "opus:", "multi30k:", "mtdata:", "tfds:")
RECIPES = [
    path.stem
    for path in CONFIGS.glob("*.py")
    if any(f'"{kind}' in path.read_text() for kind in PUBLIC)
]


def read_set(recipe: str, split: str) -> list[list[Pair]]:
    data = load_config(f"configs/{recipe}.py").data
    languages = data.source_language, data.target_language
    return read_corpora(getattr(data, split), data.directory, languages)


def test_there_are_recipes_of_public_text():
    assert {"multi30k_en_de", "wmt14_en_de_base", "wmt14_en_fr_big"} <= set(RECIPES)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_reads_its_text(recipe, web):
    web.serve(public_archives())
    data = load_config(f"configs/{recipe}.py").data
    for split in ("train", "validation", "test"):
        for pairs in read_set(recipe, split):
            assert len(pairs) == 3
            name, *rest = pairs[2].source.split()
            assert rest == [data.source_language, "für", "2"]
            assert pairs[2].target.split() == [name, data.target_language, "für", "2"]
    before = len(web.requests)
    read_set(recipe, "train")
    assert len(web.requests) == before, "the second start downloads nothing"


def test_the_recipes_read_the_corpora_of_the_paper(web):
    web.serve(public_archives())
    read = [
        [pairs[0] for pairs in read_set(f"wmt14_en_{language}_base", "train")]
        for language in ("de", "fr")
    ]
    assert read[0] == [
        Pair(f"{name}.de-en en für 0", f"{name}.de-en de für 0")
        for name in ("training/europarl-v7", "commoncrawl", "training/news-commentary-v9")
    ]
    assert [pair.target.split()[0] for pair in read[1]] == [
        "training/europarl-v7.fr-en",
        "commoncrawl.fr-en",
        "un/undoc.2000.fr-en",
        "training/news-commentary-v9.fr-en",
        "giga-fren.release2.fixed",
    ]
    assert web.count(f"{STATMT}/wmt13/training-parallel-europarl-v7.tgz") == 1  # for both pairs


def test_public_text_can_be_read_file_by_file(web):
    """Preparing a corpus streams these files, without all of them in memory."""
    web.serve(public_archives())
    request = SourceRequest(spec="wmt:gigafren", directory=Path(), languages=("en", "fr"))
    assert request.kind.text_files is not None
    files = request.kind.text_files(request)
    assert [gzip.decompress(file.read_bytes()) for file in files] == [
        lines("giga-fren.release2.fixed", language) for language in ("en", "fr")
    ]


def test_multi30k_is_read_from_the_data_directory_if_it_is_there(web, tmp_path):
    (tmp_path / "train.en").write_text("a dog\n")
    (tmp_path / "train.de").write_text("ein Hund\n")
    data = load_config("configs/multi30k_en_de.py").data
    assert read_corpora(data.train, str(tmp_path), ("en", "de")) == [[("a dog", "ein Hund")]]
    assert not web.requests


TINY = (
    "--training.num-steps 2 --training.validate-every 2 --training.checkpoint-every 2 "
    "--model.num-encoder-layers 1 --model.num-decoder-layers 1 --model.d-model 16 "
    "--model.d-ff 16 --model.num-heads 2 --training.warmup-steps 1 "
    "--data.tokenizer.kind word --data.tokenizer.vocab-size 50"
)


def commands_of_the_page() -> list[str]:
    page = (CONFIGS.parent / "docs" / "corpora.md").read_text().replace("\\\n", "")
    return re.findall(r"^    python -m (.*)", page, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(3))
def test_the_commands_of_the_page_train(number, web, tmp_path):
    ted = zipped({f"TED2020.de-en.{one}": lines("TED2020", one) for one in ("de", "en")})
    opus = "https://object.pouta.csc.fi/OPUS-TED2020/v1/moses/de-en.txt.zip"
    web.serve(public_archives() | {opus: ted})
    web.cut[f"{STATMT}/wmt13/training-parallel-europarl-v7.tgz"] = 100
    command = commands_of_the_page()[number]
    words = f"{sys.executable} -m {command} {TINY} --workdir {tmp_path / 'run'}".split()
    done = subprocess.run(words, cwd=CONFIGS.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Downloading http" in done.stderr
    assert (tmp_path / "run" / "config.json").exists()
