"""Defines the command serve. Heavy modules are imported inside it."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from shlex import quote
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote as quoted
from urllib.parse import urlsplit

import typer

from vfs.cli.flags import Datasets, Settings, opens, refuse
from vfs.cli.mounting import Background, Level, LogLevel, ended_by_ctrl_c, planned
from vfs.cli.printing import line, put, say
from vfs.cli.unit import System, Unit, put_unit
from vfs.errors import OptionError, printable
from vfs.model.command_options import ServeOptions
from vfs.model.option_fields import USUAL

if TYPE_CHECKING:
    from vfs.contents.contents import Contents
    from vfs.server import ServeHow
    from vfs.serving.status import Status


def _install(wanted: bool) -> None:
    """Install the desktop entry, and end: no data set is needed for it."""
    if wanted:
        from vfs.cli.desktop import install

        put(install())
        say("a file manager offers vfs under `Open with`; closing its window ends the server; remove this file to undo")
        raise typer.Exit


@opens(ServeOptions, usual=("tree", "nav_shape"))
def serve(
    datasets: Datasets,
    open_: Annotated[
        bool, typer.Option("--open", help="Also open the URL in a browser.", rich_help_panel=USUAL)
    ] = False,
    background: Background = False,
    log_level: Level = None,
    unit: Unit = False,
    system: System = False,
    install_desktop: Annotated[
        bool,
        typer.Option(
            "--install-desktop",
            is_eager=True,
            callback=_install,
            help="Have file managers offer vfs for your files (writes vfs.desktop into your own folder), and end.",
        ),
    ] = False,
    *,
    context: typer.Context,
    settings: Settings,
) -> None:
    """Serve data sets over HTTP, read-only, until Ctrl-C or `vfs unmount`.

    For each data set there are NAME.zarr (zarr version 3), NAME.v2.zarr (version 2) and NAME.npy,
    and of images NAME.ome.zarr (OME-Zarr), below the URL that is printed, for programs and browsers
    that cannot mount. Who has the URL can read the data: it holds a token.
    """
    with ended_by_ctrl_c():
        from vfs.cli.console import under_manager
        from vfs.server import ServeHow, start_in_background

        level = (log_level or (LogLevel.info if background else LogLevel.warning)).value
        options = settings.options
        assert isinstance(options, ServeOptions)
        plan, what = planned(datasets, settings)
        refuse({"--system": system and not unit}, "without --unit")
        if unit:
            if not ((options.token or options.tokens) and options.port):
                raise OptionError(
                    "--unit: expected --token FILE (or none) and --port N, so that each start has one URL; or --tokens"
                    " FILE instead of --token"
                )
            log = [os.path.dirname(os.path.abspath(options.access_log))] if options.access_log else []
            writes = [*log, *(os.path.abspath(str(one)) for one in (options.cache_dir, options.pyramid_cache) if one)]
            refuse({"--allow-describe": system and options.allow_describe}, "with --system: it could not write there")
            what = f"vfs serve, port {options.port}"
            put_unit(what, context.obj, writes if system else None, background=background, open=open_)
            return
        how = ServeHow.of(options, plan.sources)
        contents = plan.here()
        # A service manager puts what is printed into a log, where no token belongs; of a chosen one the user has a file
        logged = bool(options.token and under_manager())

        def shown(address: str, url: str, hint: str) -> None:
            if not logged:
                put(url)
            for note in _notes(what, address, "" if logged or options.tokens else url, hint, contents, options):
                say(note)
            if open_:
                from vfs.cli.browser import open_page

                if fault := open_page(url, address):
                    say(fault)

        if background:
            hint = "`vfs mounts` shows what it has served,"
            start_in_background(plan.make, how, say=lambda address, url: shown(address, url, hint), log_level=level)
            return
        _run(contents, how, shown, level)


def _run(contents: Contents, how: ServeHow, shown: Callable[[str, str, str], None], level: str) -> None:
    """Serve in the foreground, with a line of what is served on the terminal.

    Args:
        shown: says that a server answers: its address, URL, and how else it is ended.
        level: of log messages.
    """
    from vfs.cli.console import tell_manager, terminal
    from vfs.server import serve as run
    from vfs.serving.logs import LogHow

    with terminal(level) as console:

        def ready(address: str, url: str) -> None:
            shown(address, url, "Ctrl-C or")
            tell_manager("READY=1")

        def watch(status: Status) -> None:
            console.show(status)
            tell_manager(f"STATUS={status.counts()}")

        last = run(contents, how, ready=ready, watch=watch, log_how=LogHow(debug=level == "debug"))
        console.end()
        console.say(line(f"{last.address}: {last.summary()}"))


def _notes(what: str, address: str, url: str, hint: str, contents: Contents, options: ServeOptions) -> list[str]:
    """Return what is said of a server that answers.

    Args:
        what: what it shows, in words.
        url: its address with the token; "" if it is not to be shown.
        hint: how else it is ended or looked at.
    """
    # Of folders that may hold many sets, nothing is looked at before somebody asks
    first = next((entry.path for entry in contents.at("").sets()), None) if contents.faces and url else None
    notes = [f"{what} at {address}; {hint} `vfs unmount {address}` ends it"]
    if first is not None:
        notes.append(f'in Python: zarr.open("{url}{quoted(os.fsencode(first))}")')
    if options.tokens is not None:
        notes.append(f"each person of {printable(options.tokens)} reads at {address}t/TOKEN/")
    return notes + _from_elsewhere(address, options)


def _from_elsewhere(address: str, options: ServeOptions) -> list[str]:
    """Return notes for people who sit at another machine, and about who can read what is sent."""
    from vfs.http.guard import is_loopback

    place, notes = urlsplit(address), []
    if is_loopback(options.host):
        server = os.environ.get("SSH_CONNECTION", "").split()[2:3]
        if server:
            tunnel = f"ssh -L {place.port}:{place.netloc} {quote(getpass.getuser())}@{server[0]}"
            notes.append(f"from your machine: {tunnel}, then open the URL there")
    elif place.scheme == "http":
        notes.append("what is sent is not encrypted, and can be read on the way; --tls-cert and --tls-key encrypt it")
    return notes
