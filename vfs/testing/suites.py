"""Checks that every backend and every format must pass, shipped so that those made elsewhere can run them too.

A test file has only to say what is to be tested::

    class TestMyBackend(BackendTests):
        def make(self, files):
            return MyBackend(files)

    class TestMyFormats(FormatTests):
        rows = (Row("two files", "myformat", write_mine, ordered=True),)

`write_mine(folder)` writes tiny valid files and returns (paths, the array that is in them, options); `Row` says what else there is to
say. Both suites need pytest and hypothesis.
"""

from vfs.testing.backend_suite import BackendTests
from vfs.testing.format_suite import FormatTests
from vfs.testing.rows import Row, Written

__all__ = ["BackendTests", "FormatTests", "Row", "Written"]
