"""What tests of several tools share: the warnings of a tool are not ours to mend, and a screen that nobody sees."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("default", "ignore::DeprecationWarning"))


@pytest.fixture(scope="session")
def display() -> Iterator[str]:
    """A screen of X without a monitor, in the environment of this process and those it starts."""
    server = shutil.which("Xvfb")
    if server is None:
        pytest.skip("no Xvfb")
    reading, writing = os.pipe()
    command = [server, "-displayfd", str(writing), "-screen", "0", "1280x1024x24", "-nolisten", "tcp"]
    with open(os.devnull, "w") as nowhere:
        process = subprocess.Popen(command, pass_fds=[writing], stderr=nowhere)
    os.close(writing)
    with os.fdopen(reading) as told, pytest.MonkeyPatch.context() as patch:
        number = told.readline().strip()
        assert number, "Xvfb did not start"
        patch.setenv("DISPLAY", f":{number}")
        patch.delenv("QT_QPA_PLATFORM", raising=False)
        try:
            yield f":{number}"
        finally:
            process.terminate()
            process.wait(timeout=250)
