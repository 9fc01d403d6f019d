"""Log lines: each is one line of printable characters, whatever files are called; a log file does not grow for ever."""

from __future__ import annotations

import logging
import os
import sys

from vfs.errors import printable

LIMIT = 4 << 20  # bytes of a log file: it lies in memory where the runtime folder does


class Line(logging.Formatter):
    """Spells out what is not printable; only a traceback has further lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802, logging calls it so
        return printable(super().formatMessage(record))


class Stderr(logging.Handler):
    """Writes to stderr.

    Args:
        limited: it is a log file of ours, which begins anew when it has become too long.
    """

    def __init__(self, limited: bool) -> None:
        super().__init__()
        self.limited = limited

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        try:
            if self.limited and os.fstat(2).st_size > LIMIT:
                os.ftruncate(2, 0)
                line = f"(the log had {LIMIT:,} bytes; what it said before is gone)\n{line}"
            print(line, file=sys.stderr, flush=True)
        except (OSError, ValueError):
            self.handleError(record)
