"""Every format against the shipped suite, with every row of `rows`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.rows import ROWS
from vfs.cli.app import main
from vfs.testing.rows import WrittenSet
from vfs.testing.suites import FormatTests


class TestFormats(FormatTests):
    rows = ROWS

    def test_the_command_line_says_it_in_one_line(self, found: WrittenSet, capsys: pytest.CaptureFixture[str]) -> None:
        options = [word for name, value in found.options.items() for word in ("-o", f"{name}={value}")]
        paths = [str(path) for path in ([found.paths] if isinstance(found.paths, str | Path) else found.paths)]
        if len(paths) > 1:
            paths = [str(Path(paths[0]).with_name("*" + Path(paths[0]).suffix))]
        command = ["info", *paths, "--format", found.row.format, *options]
        assert main(command) == 0, capsys.readouterr().err
        capsys.readouterr()
        for content in (b"", b"\0" * 1000, None):
            for path in found.files:
                path.write_bytes(content) if content is not None else path.unlink()
            if content and not found.row.detected:
                continue
            assert main(command) == 2
            out, err = capsys.readouterr()
            assert out == ""
            assert err.startswith("vfs: ")
            assert err.count("\n") == 1
