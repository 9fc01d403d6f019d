"""Servers in the background are let go of as a whole, whatever signal comes."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_server_is_set_free_acts_when_that_was_said(number: signal.Signals) -> None:
    """It came to a thread of a library, and ended the command where nobody could end the server any more."""
    code = """
        import os, signal, subprocess, sys, threading
        from vfs.serving.process import set_free

        number = int(sys.argv[1])
        signal.signal(number, signal.SIG_DFL)  # as Ctrl-C has it in vfs mount
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        server = subprocess.Popen(["head", "-c", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def say():
            os.kill(os.getpid(), number)
            print("said", flush=True)

        set_free(server, "server", say)
        print("not ended", flush=True)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(number.value)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (-number, "said\n", "")
