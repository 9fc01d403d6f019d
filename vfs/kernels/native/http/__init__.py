"""Answers requests for chunks over HTTP without the interpreter.

It gains (µs a request over eight connections, before and after, `vfs/docs/serve.md`): chunks of 64 KiB 73 → 24, of
512 KiB 115 → 90. The larger a chunk, the more of the time is copying, which no language makes shorter. It could be
deleted if a request took Python 20 µs: nothing else depends on it, and `vfs serve --no-native` shows what is left.

`answering` runs the threads, `finding` looks for the source of a request, `filling` takes bytes from files, `sending`
sends them. `words` declares the tables that `vfs.http.native_tables` fills.
"""

from typing import Any

from vfs.kernels.importing import module_of


def __getattr__(name: str) -> Any:
    return module_of(__name__, name)
