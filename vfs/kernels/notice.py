"""Says on a terminal that kernels are compiled: it takes seconds, once, and nothing else would show.

Commands, and servers that they start, ask for it. Who imports vfs hears nothing.
"""

import sys
from contextlib import suppress

_TEXT = (
    "vfs: compiling what this needs, once: up to half a minute (`vfs doctor --compile` does it for all first uses)\n"
)
_asked = False


def ask() -> None:
    """Let this process say when it compiles its first kernel, if its stderr is a terminal."""
    global _asked
    _asked = True


def compiling() -> None:
    """Say it, if it was asked for and is not said yet."""
    global _asked
    if _asked:
        _asked = False
        with suppress(OSError, ValueError):  # stderr is closed
            if sys.stderr.isatty():
                sys.stderr.write(_TEXT)
                sys.stderr.flush()
