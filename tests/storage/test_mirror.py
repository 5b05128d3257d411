"""Files that grow are copied to a bucket."""

from flaxformer_mt.storage.mirror import Mirror
from flaxformer_mt.storage.paths import as_path, file_sizes, write_file


def test_a_file_goes_on_where_the_bucket_has_it(bucket):
    write_file(as_path(bucket) / "lines", b"one\n")
    mirror = Mirror(as_path(bucket), "lines", "none")
    with (mirror.folder / "lines").open("a") as file:
        file.write("two\n")
    mirror.copy()
    (mirror.folder / "sub").mkdir()
    (mirror.folder / "sub" / "new").write_text("3")
    mirror.copy(every=1000.0)
    assert file_sizes(as_path(bucket)) == {"lines": 8}
    mirror.close()
    assert file_sizes(as_path(bucket)) == {"lines": 8, "sub/new": 1}
    assert not mirror.folder.exists()


def test_a_folder_of_this_machine_is_used_itself(tmp_path):
    mirror = Mirror(tmp_path, "lines")
    assert mirror.folder == tmp_path
    mirror.copy()
    mirror.close()
    assert tmp_path.exists()
