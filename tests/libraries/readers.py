"""Readers that do to their process what libraries do, and one that behaves. They run in the fork."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from vfs.libraries.signals import Signal, SignalAxis, Signals


class Numbers(Signals):
    """Shows the bytes of a file as a map of spectra of eight channels, and itself as the file tells it to."""

    @staticmethod
    def load() -> None:
        pass

    def open(self, path: str, options: Mapping[str, Any]) -> list[Signal]:
        content = Path(path).read_bytes()
        word = content.split(b" ")[0].decode("latin1")
        if hasattr(self, word):
            getattr(self, word)(content.decode().partition(" ")[2])
        data = np.frombuffer(content, "u1").reshape(-1, 2, 8)
        colours = np.zeros((2, 3), [("R", "u1"), ("G", "u1"), ("B", "u1")])
        colours["G"] = 7
        axes = [SignalAxis("Y", 0.5, 1.0, "nm", navigates=True), SignalAxis("X", navigates=True)]
        energy = SignalAxis("Energy", values=np.arange(8.0) ** 2, unit="eV")
        about: dict[str, Any] = {"attrs": {"pid": os.getpid()}, "original": {"all": {"of": "it"}}}
        return [Signal(data, [*axes, energy], "map", **about), Signal(colours, [SignalAxis("y"), SignalAxis("x")])]

    def crash(self, _: str) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    def hang(self, _: str) -> None:
        time.sleep(60)

    def grow(self, _: str) -> None:
        np.ones(1 << 40, "u1")

    def fail(self, _: str) -> None:
        raise KeyError("a word\nand a second line")

    def write(self, path: str) -> None:
        Path(path).write_text("x")

    def remove(self, path: str) -> None:
        Path(path).unlink()

    def leave(self, path: str) -> None:
        Path(path).read_bytes()

    def run(self, _: str) -> None:
        os.system("true")


class Together:
    """Answers for all sets with its process, and itself as the file of the set tells it to."""

    started: ClassVar[list[int]] = []

    def __init__(self, opening: Mapping[str, Any]) -> None:
        assert set(opening) == {"seconds"}

    @staticmethod
    def load() -> None:
        pass

    @classmethod
    def start(cls) -> None:
        cls.started.append(os.getpid())

    def answer(self, question: Mapping[str, Any], data: np.ndarray) -> tuple[dict[str, Any], np.ndarray | None]:
        about = question["set"]
        if about["path"].endswith("crash.together"):
            os.kill(os.getpid(), signal.SIGSEGV)
        one = {"path": "data", "dtype": "|u1", "shape": [2], "dims": ["x"], "nav_ndim": 0, "block": [2]}
        told = {**one, "companion": False, "attrs": {"pid": self.started}}
        return ({}, np.zeros(2, "u1")) if question["ask"] == "block" else ({"arrays": [told], "files": {}}, None)


class Unstarted(Together):
    """Does not start."""

    @classmethod
    def start(cls) -> None:
        raise OSError("no engine")
