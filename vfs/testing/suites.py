"""Offers the checks that every format must pass, also those of other packages.

A test file only names the format::

    class TestMyFormats(FormatTests):
        rows = (Row("two files", "myformat", write_mine, ordered=True),)

`write_mine(folder)` writes tiny valid files and returns (paths, the array in them, options); `Row`
describes the set further. The suite needs pytest and hypothesis.
"""

from vfs.testing.format_suite import FormatTests
from vfs.testing.rows import Row, Written

__all__ = ["FormatTests", "Row", "Written"]
