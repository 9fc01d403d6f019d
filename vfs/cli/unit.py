"""Prints a command as a unit of systemd, which starts it whenever the user is logged in, or the machine runs.

The format is that of `systemd.service(5)` and `systemd.syntax(7)`.
"""

from __future__ import annotations

import getpass
import os
import re
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from vfs.cli.flags import refuse
from vfs.cli.printing import put
from vfs.errors import OptionError, printable

Unit = Annotated[
    bool,
    typer.Option(
        "--unit", help="Print a unit of systemd that runs exactly this command whenever you are logged in, and end."
    ),
]
System = Annotated[
    bool,
    typer.Option(
        "--system",
        help="With --unit: a unit of the machine, not of your login. It runs as you, and writes only logs and caches.",
    ),
]
_UNIT = """\
[Unit]
Description={what}

[Service]
Type=notify
WorkingDirectory={folder}
ExecStart={command}
KillMode=mixed
Restart=on-failure
{more}
[Install]
WantedBy={target}"""
_SYSTEM = """\
User={user}
LimitNOFILE=65536
RuntimeDirectory=%N
RuntimeDirectoryMode=0700
CacheDirectory=%N
Environment=XDG_RUNTIME_DIR=%t/%N XDG_CACHE_HOME=%C/%N
NoNewPrivileges=yes
PrivateTmp=yes
ProtectSystem=strict
ProtectHome=read-only
ReadOnlyPaths={folder}
ReadWritePaths={writes}
ExecReload=/bin/kill -HUP $MAINPID
"""
"""For a server. A mount behind `ProtectSystem` nobody else would see, and fusermount3 needs privileges of its own."""


def put_unit(what: str, words: Sequence[str], writes: Sequence[str] | None = None, **refused: object) -> None:
    """Print the unit of a command.

    Names on the command line mean in the unit what they mean here, since it runs in the current folder.

    Args:
        what: the command in words, for the list of services.
        words: those after `vfs`, with --unit among them.
        writes: print one of the machine, for a server that writes into these folders; None: one of the user.
        refused: option as in Python -> its value; options with which no unit works.

    Raises:
        OptionError: one of these is given, or a name is none that a unit can hold.
    """
    refuse({f"--{name}": value for name, value in refused.items()}, "with --unit: systemd runs it in the background")
    options, rest = (words[: words.index("--")], words[words.index("--") :]) if "--" in words else (words, [])
    folder = os.getcwd()
    if folder.endswith(("\\", " ")):  # a backslash would go on in the next line, and a space be dropped
        raise OptionError(f"{printable(folder)}: expected a folder whose name a unit can hold; start in another one")
    # The names of modules are not looked up in the current folder (-P)
    command = [
        sys.executable,
        "-P",
        "-m",
        "vfs",
        *(word for word in options if word not in ("--unit", "--system")),
        *rest,
    ]
    for word in [folder, *command]:
        if printable(word) != word:
            raise OptionError(f"{printable(word)}: expected letters that a unit of systemd can hold; rename it")
    program, *arguments = map(_quoted, command)
    line = " ".join([program, *(word.replace("$", "$$") for word in arguments)])
    named = folder.replace("%", "%%")
    more, target = "", "default.target"
    if writes is not None:
        more = _SYSTEM.format(user=getpass.getuser(), folder=_quoted(folder), writes=" ".join(map(_quoted, writes)))
        more, target = more if writes else more.replace("ReadWritePaths=\n", ""), "multi-user.target"
    unit = _UNIT.format(
        what=what.replace("%", "%%").replace("\\", "/"), folder=named, command=line, more=more, target=target
    )
    put(unit)


def _quoted(word: str) -> str:
    """Quote a word of a command line of systemd, which expands % everywhere."""
    safe = word.replace("%", "%%")
    if re.fullmatch(r"[\w./+:@%=,$~-]+", safe):
        return safe
    return '"' + safe.replace("\\", "\\\\").replace('"', '\\"') + '"'
