"""Native code that does what Python could do, but for the time it takes: it answers libfuse and HTTP clients.

Here are no arrays: native code reads *tables of words* at addresses (`words`), with loads, stores and atomic operations
(`memory`) and functions of the C library (`clib`). It has no types that mypy knows and no coverage. So it must stay
small, and each of its parts says what it gains:

- `fuse` is called by libfuse. It answers reads of a mount without the interpreter, which takes 10 to 30 µs a request
  and lets one thread at a time run.
- `http` answers requests for chunks.
- `at_hand` reads and decodes what the page cache has in one call, for both and for stores.
- `frames` is what a source is for both: where the frames of an array lie, and which of its files are open. `sources`
  finds it in a table.
"""

from typing import Any

from vfs.kernels.importing import module_of


def __getattr__(name: str) -> Any:
    return module_of(__name__, name)
