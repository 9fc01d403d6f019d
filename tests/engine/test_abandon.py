"""What computes for long ends when nobody waits for it."""

from __future__ import annotations

import subprocess
import sys

ENDLESS = """
import threading, time
from vfs.engine import abandon

def work():
    try:
        while True:
            abandon.check()
            time.sleep(0.01)
    except abandon.AbandonedError:
        print("abandoned")

threading.Thread(target=work).start()
"""


def test_a_process_that_ends_waits_for_no_result() -> None:
    ran = subprocess.run([sys.executable, "-c", ENDLESS], capture_output=True, text=True, timeout=250, check=True)
    assert ran.stdout == "abandoned\n"
