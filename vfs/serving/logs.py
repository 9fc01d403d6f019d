"""Writes log lines of printable characters only, and keeps log files small.

File names may contain any characters; they cannot break a line or garble the terminal.
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass

from vfs.errors import printable

LIMIT = 4 << 20  # bytes of a log file: the runtime folder, which holds it, is usually in memory


@dataclass(frozen=True)
class LogHow:
    """Says how a server logs.

    Attributes:
        to_file: once it is ready, stdout and stderr are redirected to the log file of its entry.
        debug: it logs every request, and puts tracebacks into the log.
    """

    to_file: bool = False
    debug: bool = False


TO_STDERR = LogHow()
"""A server logs to stderr, and no requests."""


class Line(logging.Formatter):
    """Formats a record as one line, with unprintable characters escaped.

    A traceback follows in lines of its own.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802, logging calls it so
        return printable(super().formatMessage(record))


class Stderr(logging.Handler):
    """Writes log lines to stderr.

    Args:
        limited: stderr is the log file of a mount; empty it when it has more than `LIMIT` bytes.
    """

    def __init__(self, limited: bool) -> None:
        super().__init__()
        self.limited = limited

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        try:
            if self.limited and os.fstat(2).st_size > LIMIT:
                os.ftruncate(2, 0)
                line = f"(the log had {LIMIT:,} bytes; earlier lines were removed)\n{line}"
            print(line, file=sys.stderr, flush=True)
        except (OSError, ValueError):
            self.handleError(record)
