"""Answers requests for chunks over HTTP without the interpreter.

Processor time of the server for a request of raw frames, in Python → here: chunks of 64 KiB 60 → 28 µs, 512 KiB
221 → 130, 2 MiB, which many arrays have by default, 833 → 521, 8 MiB 3125 → 2708 (`vfs/docs/serve.md` has times that
clients see). It could be deleted if Python took some 40 µs for a request and sent chunks from a map of the file:
nothing else depends on it, and `vfs serve --no-native` shows what is left.

`answering` runs the threads, `finding` looks for the source of a request, `filling` takes bytes from files, `sending`
sends them, `noting` writes the access log. `words` declares the tables that `vfs.server.native_tables` fills.
"""

from typing import Any

from vfs.kernels.importing import module_of


def __getattr__(name: str) -> Any:
    return module_of(__name__, name)
