"""Offers the checks that every backend and every format must pass, also those of other packages.

A test file only names the backend or format::

    class TestMyBackend(BackendTests):
        def make(self, files):
            return MyBackend(files)

    class TestMyFormats(FormatTests):
        rows = (Row("two files", "myformat", write_mine, ordered=True),)

`write_mine(folder)` writes tiny valid files and returns (paths, the array in them, options); `Row`
describes the set further. Both suites need pytest and hypothesis.
"""

from vfs.testing.backend_suite import BackendTests
from vfs.testing.format_suite import FormatTests
from vfs.testing.rows import Row, Written

__all__ = ["BackendTests", "FormatTests", "Row", "Written"]
