"""Rows: numbers, file and Markdown."""

import dataclasses

import pytest

from benchmarks.rounds import Sample, Settings
from benchmarks.table import main, make_rows, markdown, publish, read


def rows(**changes):
    warm = {"compilations": 2, "compile_seconds": 8.2}
    ours = [{"seconds": s, "peak_memory": 5e6} for s in (1, 2, 4)]
    theirs = [{"seconds": s, "peak_memory": 7e6} for s in (3, 4, 4)]
    samples = {
        "ours float32": Sample(warm, ours, [0, 3, 1]),
        "marian": Sample({}, theirs, [0, 70, 0]),
    }
    given = {
        "settings": Settings(busy=10),
        "limits": {"ours float32": 1000.0, "marian": 1000.0},
        "details": {"marian": {"equal translations": "99%"}},
        "benchmark": "decode",
        "case": "small",
        "unit": "tokens/s",
    }
    return make_rows(samples, 1000, **given | changes)


def test_numbers():
    ours, marian = rows()
    assert ours.value == 500 and ours.values == [1000, 500, 250]
    assert ours.ratios == {"marian": 2.0} and marian.ratios == {"ours float32": 0.5}
    assert ours.fraction_of_limit == 0.5 and ours.peak_memory == 5e6
    assert ours.quiet and not marian.quiet and marian.busy == 70
    assert ours.run["versions"]["jax"] and ours.run["cpus"] >= 1


def test_without_an_amount_the_value_is_the_seconds():
    (ours, _) = make_rows(
        {name: Sample({}, [{"seconds": 3.0}], [0]) for name in ("ours", "theirs")},
        None,
        settings=Settings(),
        benchmark="startup",
        case="import",
        unit="seconds",
    )
    assert ours.value == 3 and ours.ratios == {"theirs": 1.0}


def test_markdown():
    table = markdown(rows()).splitlines()
    assert table[0] == "**decode: small**"
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:6]]
    ours, marian = (dict(zip(cells[0], line, strict=True)) for line in cells[2:])
    assert ours["tokens/s"] == "500" and ours["min - max"] == "250 - 1,000"
    assert ours["compiled"] == "2 in 8 s" and ours["of the machine's limit"] == "50%"
    assert marian["ours float32 / this"] == "**2.00**" and ours["ours float32 / this"] == ""
    assert marian["not quiet"] == "70 %" and marian["equal translations"] == "99%"


def test_a_column_without_a_cell_is_left_out():
    assert "of the machine's limit" not in markdown(rows(limits=None))


def test_the_newest_row_of_each_contender_is_read(tmp_path, capsys):
    settings = dataclasses.replace(Settings(), out=str(tmp_path / "new" / "rows.jsonl"))
    publish(rows(), settings)
    newer = [dataclasses.replace(row, value=row.value + 1) for row in rows()]
    publish(newer, settings)
    found = read([settings.out])
    assert [row.value for row in found] == [501, pytest.approx(251)]
    assert capsys.readouterr().out.count("**decode: small**") == 2


def test_each_run_has_its_footer():
    ours, marian = rows()
    assert markdown([ours, marian]).count("jax ") == 1
    later = dataclasses.replace(marian, run=marian.run | {"command": "another"})
    lines = markdown([ours, later]).splitlines()
    assert "    another" in lines
    assert any(line.startswith("marian: 20") for line in lines)


def test_each_machine_has_its_table(tmp_path):
    settings = dataclasses.replace(Settings(), out=str(tmp_path / "rows.jsonl"))
    elsewhere = [
        dataclasses.replace(row, run=row.run | {"device": "gpu", "accelerator": "H100"})
        for row in rows()
    ]
    publish([*rows(), *elsewhere], settings)
    found = read([settings.out])
    assert len(found) == 4
    assert markdown(found).count("**decode: small**") == 2


def test_a_missing_file_is_named(tmp_path, capsys):
    assert main([str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl: No such file" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [b"{", b'{"a": 1}', b"[1]", b'"\xff"', b""])
def test_a_line_that_is_no_row_is_named(wrong, tmp_path, capsys):
    file = tmp_path / "rows.jsonl"
    publish(rows(), dataclasses.replace(Settings(), out=str(file)))
    file.write_bytes(file.read_bytes() + wrong + b"\n")
    assert main([str(file)]) == 2
    assert "rows.jsonl, line 3, is no row of a benchmark: " in capsys.readouterr().err


def test_files_without_rows_are_refused(tmp_path, capsys):
    (tmp_path / "empty").touch()
    for files in ([], [str(tmp_path / "empty")]):
        assert main(files) == 2
        assert "error: no row: name files" in capsys.readouterr().err


def test_a_table_is_printed_before_its_rows_are_written(tmp_path, capsys):
    with pytest.raises(OSError):
        publish(rows(), dataclasses.replace(Settings(), out=str(tmp_path)))
    assert "**decode: small**" in capsys.readouterr().out


def test_rows_of_different_runs_are_not_compared():
    ours, marian = rows()
    other = dataclasses.replace(marian, contender="torch")
    assert markdown([ours, marian, other]).count("** |") == 1
