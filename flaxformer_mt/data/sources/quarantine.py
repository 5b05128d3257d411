"""Bad records of training text. They are removed and listed, so that a run can continue."""

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from flaxformer_mt.data.sources.pair import Pair
from flaxformer_mt.storage.paths import AnyPath, make_folder, write_file

_MAX_TEXT = 500  # characters of a bad record to list


class BadRecord(NamedTuple):
    """A record that is not a pair of sentences."""

    kind: str
    """The reason in a few words, for counting."""
    file: str
    line: int
    """Number of the line (or row), from 1; 0 until `Block.load` sets it."""
    reason: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}"


Record = Pair | BadRecord


def blank_side(pair: Pair, file: str, line: int) -> BadRecord:
    """Returns the record of a pair that has an empty side."""
    side, other = ("target", pair.source) if pair.source.strip() else ("source", pair.target)
    return BadRecord(f"empty {side}", file, line, f"the {side} is empty", other)


def write_quarantine(records: Sequence[BadRecord], file: AnyPath) -> None:
    """Writes one JSON object for each record to `file`; removes the file if there is none."""
    if not records:
        file.unlink(missing_ok=True)
        return
    make_folder(file.parent)
    write_file(file, "".join(map(quarantine_line, records)).encode())


def quarantine_line(record: BadRecord) -> str:
    """Returns a JSON line with the kind, file, line, reason and text of a bad record."""
    values = record._asdict() | {"text": record.text[:_MAX_TEXT]}
    line = f"{json.dumps(values, ensure_ascii=False)}\n"
    return line.encode(errors="backslashreplace").decode()  # a file name may not be UTF-8


@dataclasses.dataclass(kw_only=True)
class CorpusScan:
    """The numbers of records, bad records and good pairs of a corpus."""

    name: str
    records: int = 0
    bad: Counter[str] = dataclasses.field(default_factory=Counter)
    """Bad records by reason."""
    first_bad: str = ""
    """The first bad record, with file, line and reason."""
    block_sizes: list[int] = dataclasses.field(default_factory=list)
    """The number of pairs in each block that are neither bad nor excluded."""

    @property
    def good(self) -> int:
        """The number of pairs that are neither bad nor excluded."""
        return sum(self.block_sizes)

    def add(self, num_records: int, num_good: int, bad: Sequence[BadRecord]) -> None:
        """Adds the counts of a block."""
        self.records += num_records
        self.block_sizes.append(num_good)
        self.bad.update(record.kind for record in bad)
        if bad and not self.first_bad:
            self.first_bad = str(bad[0])

    def check(self, max_bad_share: str, quarantine: AnyPath | None) -> None:
        """Raises ValueError if more records are bad than `max_bad_share`, such as "5%".

        `quarantine` is the file that lists the bad records, if there is one.
        """
        share = self.bad.total() / max(self.records, 1)
        if share <= parse_share(max_bad_share):
            return
        counts = ", ".join(f"{count:,} {kind}" for kind, count in self.bad.most_common())
        listed = f" All are listed in {quarantine}." if quarantine else ""
        raise ValueError(
            f"{self.bad.total():,} of {self.records:,} records of {self.name} are bad "
            f"({share:.2%}; {counts}); data.max_bad_share allows {max_bad_share}. The first one: "
            f"{self.first_bad.rstrip('.')}.{listed} Correct the text, or raise the share: "
            "--data.max-bad-share 100% drops all bad records."
        )


def parse_share(text: str) -> float:
    """Returns a share such as "1%" or "0.01" as a number. Raises ValueError for other text."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if 0 <= share < 1 or (text.endswith("%") and share == 1):
        return share
    raise ValueError(
        f"data.max_bad_share must be a share of the records, such as 1% or 0.01, got {text!r}."
    )
