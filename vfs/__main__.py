"""Runs `vfs` as a program, also as `python -m vfs`.

Until the command runs, Ctrl-C ends the process at once, without a traceback of the imports under way.
"""

import signal
import sys


def main() -> int:
    """Run the command that the arguments of the process name.

    Returns: the exit status, see `vfs.cli.app`.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from vfs.streams import open_missing

    open_missing()
    from vfs.cli.app import main as run

    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, before)
    return run()


if __name__ == "__main__":
    sys.exit(main())
