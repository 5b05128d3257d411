"""Contenders without work, for the processes that tests start."""

import os
import time
from pathlib import Path
from typing import Any


class Echo:
    """Answers with its arguments and the request, and writes its name into a file at each turn."""

    def __init__(self, *, device: str, name: str, turns: str, seconds: float = 0.01) -> None:
        print("output of libraries is no answer")
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
    """Is never ready, and writes its process id into a file."""

    def __init__(self, *, device: str, process: str) -> None:
        del device
        Path(process).write_text(str(os.getpid()))
        time.sleep(600)


class Meeting:
    """Is ready when `guests` contenders have come. Fails after ten seconds, or if not welcome."""

    def __init__(self, *, guests: int, place: str, device: str, welcome: bool = True) -> None:
        del device
        if not welcome:
            raise ValueError("not welcome")
        Path(place, str(os.getpid())).touch()
        end = time.monotonic() + 10
        while len(list(Path(place).iterdir())) < guests:
            if time.monotonic() > end:
                raise TimeoutError("nobody came")
            time.sleep(0.01)

    def round(self) -> dict[str, Any]:
        return {"seconds": 0.0}
