"""Files of a pattern: both sides in one order, and odd names of folders."""

from flaxformer_mt.data.sources.files import matching_files, matching_pairs


def test_both_sides_of_a_pattern_have_one_order(tmp_path):
    """By whole names, news.dev.en would come before news.en, but news.de before news.dev.de."""
    for name in ("news.en", "news.dev.en", "news.de", "news.dev.de"):
        (tmp_path / name).touch()
    found = matching_pairs(tmp_path, "news*.en", "news*.de")
    assert sorted(found) == [
        ("news.dev.en", "news.dev.de"),
        ("news.en", "news.de"),
    ]


def test_a_folder_may_have_the_characters_of_a_pattern(tmp_path):
    folder = tmp_path / "old [1]"
    folder.mkdir()
    (folder / "p-1.en").touch()
    assert matching_files(folder, "p-*.en") == ["p-1.en"]


def test_the_names_of_a_pattern_start_in_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "data" / "sub").mkdir(parents=True)
    (tmp_path / "data" / "sub" / "p-1.en").touch()
    for folder, name in (("data", "**/p-*.en"), ("~/data", "sub/p-?.en")):
        assert matching_files(folder, name) == ["sub/p-1.en"]
    whole = str(tmp_path / "data" / "sub" / "p-1.en")
    for name in (str(tmp_path / "data" / "*" / "p-*.en"), "~/data/sub/*.en"):
        assert matching_files("elsewhere", name) == [whole]
