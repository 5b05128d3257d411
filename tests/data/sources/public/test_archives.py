import pytest
from public_web import tar, zipped

from flaxformer_mt.data.sources.public.archives import extract

MEMBERS = {"./a/x.de": b"eins\n", "a/x.en": b"one\n", "README": b"read me"}
STORED = zipped({"a.de": b"1"})
AT = STORED.index(b"PK\x01\x02")  # the directory of the zip file
UNKNOWN = STORED[:8] + b"\x09\x00" + STORED[10 : AT + 10] + b"\x09\x00" + STORED[AT + 12 :]
"""A zip file with a compression that Python does not know (Deflate64)."""
PACKED = {"gz": tar(MEMBERS), "xz": tar(MEMBERS, "w:xz"), "tar": tar(MEMBERS, "w")}


@pytest.mark.parametrize("packed", [*PACKED.values(), zipped(MEMBERS)], ids=[*PACKED, "zip"])
@pytest.mark.parametrize("names", [("a/x.de", "a/x.en"), ("*.de", "*.en")])
def test_members_are_copied(tmp_path, packed, names):
    archive = tmp_path / "archive"
    archive.write_bytes(packed)
    extract(archive, {names[0]: tmp_path / "german", names[1]: tmp_path / "english"})
    assert (tmp_path / "german").read_bytes() == b"eins\n"
    assert (tmp_path / "english").read_bytes() == b"one\n"


@pytest.mark.parametrize(
    ("packed", "pattern", "message"),
    [
        (tar(MEMBERS), "*.fr", r"no member '\*\.fr'; it holds: \./a/x\.de, a/x\.en, README"),
        (tar({"a.de": b"", "b.de": b""}), "*.de", r"several members '\*\.de': a\.de, b\.de"),
        (tar({"a.de": bytes(9999)})[:60], "a.de", "is damaged, .* delete it"),
        (zipped({"a.de": b"1" * 9999})[:60], "a.de", "is damaged"),
        (b"<html>moved</html>", "a.de", "is damaged"),
        (b"", "a.de", "is damaged"),
        (UNKNOWN, "a.de", "cannot be unpacked: .*Unpack it with another program"),
    ],
    ids=["no member", "two members", "cut tar", "cut zip", "a page", "empty", "compression"],
)
def test_an_unusable_archive_is_explained(tmp_path, packed, pattern, message):
    (tmp_path / "archive").write_bytes(packed)
    with pytest.raises(ValueError, match=message):
        extract(tmp_path / "archive", {pattern: tmp_path / "out"})
