"""Contenders without work, for processes that tests start."""

import os
import time
from pathlib import Path
from typing import Any


class Echo:
    """Answers what it was made with and asked, and notes in a file that it was its turn."""

    def __init__(self, *, device: str, name: str, turns: str, seconds: float = 0.01) -> None:
        print("what libraries print is no answer")
        self.name, self.turns, self.seconds = name, Path(turns), seconds
        self.facts = {"device": device}

    def round(self, **request: Any) -> dict[str, Any]:
        with self.turns.open("a") as turns:
            turns.write(self.name)
        time.sleep(self.seconds)
        return {"seconds": self.seconds, **request}


class Failing:
    """Fails in its first round."""

    def __init__(self, *, device: str) -> None:
        del device

    def round(self) -> dict[str, Any]:
        raise ValueError("no such luck")


class Slow:
    """Is never ready, and notes in a file which process that is."""

    def __init__(self, *, device: str, process: str) -> None:
        del device
        Path(process).write_text(str(os.getpid()))
        time.sleep(600)
