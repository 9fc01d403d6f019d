"""Defines the commands of `vfs`, but for `vfs info` (`vfs.cli.describing`), those about mounts and servers
(`vfs.cli.mounting`, `vfs.cli.serving`), and those that write files (`vfs.cli.writing`).

Each command opens data through `vfs.open_group` and prints the result; it decides nothing about the
data. Results go to stdout, as text or with `--json` as JSON; notes and errors go to stderr.

Exit status: 2 for a mistake of the user or data that cannot be read, with one line `vfs: …` on
stderr; 130 for Ctrl-C; 1 for what is not right or whole (`vfs verify`, `vfs check`), and for a bug, with a hint at
VFS_DEBUG=1, which shows the traceback; 1 without a message if the program that reads our output has
ended (`vfs info … | head`).

Heavy modules are imported inside the commands, so that `--help` appears at once.
"""

from __future__ import annotations

import glob
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from vfs.cli import checking, describing, mounting, serving, writing
from vfs.cli.flags import OF_IMAGES, Colours, Json, Settings, opens, refuse
from vfs.cli.help import GroupedHelp
from vfs.cli.opening import is_folder, is_zarr, open_set
from vfs.cli.printing import document, put, say
from vfs.cli.tables import width
from vfs.cli.writing import terminated
from vfs.errors import IncompleteWarning, OptionError, VfsError
from vfs.kernels import notice
from vfs.model import wording
from vfs.model.option_fields import USUAL
from vfs.serving.signals import signals
from vfs.sources.urls import without_query
from vfs.streams import give_up

app = typer.Typer(
    name="vfs",
    help=(
        "Show an array that a detector scattered over many files as one zarr store and one mounted directory, "
        "without converting anything. Start with `vfs demo`, then `vfs FILE`, which opens a page of the data in a "
        "browser (`vfs serve --open FILE`), `vfs info FILE` and `vfs mount FILE FOLDER`. "
        "`vfs COMMAND --help` explains a command, `vfs docs` lists the pages of the manual."
    ),
    epilog=(
        "Exit status: 0: done (also for a mount that a signal ended). 1: verify found a difference, check "
        "something absent; a bug in vfs, or nobody reads the output. 2: "
        "something cannot be opened, read, mounted or understood; one line says why. 129, 130, 143: ended by SIGHUP, "
        "Ctrl-C, SIGTERM."
    ),
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _command(short: str, *examples: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn a function into a command.

    Args:
        short: one line about the command, for the list of commands.
        examples: calls that the help of the command shows.
    """
    epilog = "\n".join(["\b", "For example:", *(f"  {example}" for example in examples)]) if examples else None
    return app.command(short_help=short, epilog=epilog, cls=GroupedHelp)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    if version:
        from vfs import __version__

        put(__version__)
    elif context.invoked_subcommand is None:
        put(context.get_help())


_command(
    "Describe data sets, or list those in a folder.",
    "vfs info scan.hdr",
    "vfs info -r ~/data",
    "vfs info 'part*.raw' --format raw -o stored_dtype=u2 -o sig_shape=256,256",
)(describing.info)


@_command("List the formats with their options.", "vfs formats", "vfs formats raw")
def formats(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only this format.")] = None, json_: Json = False
) -> None:
    """List the formats, with endings of files, address of the specification, and options for -o."""
    from vfs.cli.formats import formats_json, formats_text
    from vfs.formats import by_name
    from vfs.formats import formats as known

    asked = {name: by_name(name)} if name else known()
    if json_:
        put(document(formats_json(asked)))
    else:
        put("\n".join(formats_text(asked, width())))


_command(
    "Show data sets as zarr stores and .npy files in a folder.",
    "mkdir mnt && vfs mount scan.hdr mnt --background && ls mnt",
    "vfs mount scan.mib mnt --nav-shape 256,256",
    "vfs mount --tree ~/data mnt",
)(mounting.mount)
_command("Serve data sets over HTTP.", "vfs serve scan.hdr --nav-shape 256,256", "vfs serve --tree data --background")(
    serving.serve
)
_command("List your mounts and servers, and what each has served.")(mounting.mounts)
_command("End a mount or server, or all of yours.", "vfs unmount mnt", "vfs unmount --all")(mounting.unmount)


_command(
    "Write a data set as a real zarr store.",
    "vfs export scan.hdr scan.zarr",
    "vfs export scan.hdr scan.zarr --shards auto --verify",
    "vfs export scan.hdr part.zarr --roi mask.npy --dtype f4",
    "vfs export scan.hdr scan.html",
)(writing.export)
_command(
    "Compare an exported store with its source, or its checksums.",
    "vfs verify scan.zarr",
    "vfs verify scan.zarr scan.hdr",
)(writing.verify)
_command(
    "Make images of a scan: virtual detectors, sums, centre of mass.",
    "vfs reduce scan.hdr bf.tif bf",
    "vfs reduce scan.hdr images.png bf haadf com",
    "vfs reduce scan.hdr bf.tif 'bf=disk(cy=128, cx=128, r=20)'",
    "vfs reduce scan.hdr out.zarr adf haadf com 'ring=ring(128, 128, 60, 120)'",
)(writing.reduce)


_command(
    "Check whether data sets are whole.",
    "vfs check scan.hdr",
    "vfs check ~/data --read --json",
)(checking.check)


@_command(
    "Draw a frame in the terminal.",
    "vfs look scan.hdr",
    "vfs look scan.hdr 10,20",
    "vfs look many.h5 --array entry/data",
)
@opens(
    refused=("chunks", "derive", *OF_IMAGES, "zarr_format"),
    where="for look, which reads one frame",
    usual=("array", "nav_shape"),
)
def look(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="As for `vfs info`.")],
    position: Annotated[
        str | None,
        typer.Argument(
            metavar="POSITION",
            help=(
                "Position of the frame in the scan (10,20), or its number among all frames, counted from 0. Without it,"
                " the middle of the scan."
            ),
        ),
    ] = None,
    graphics: Annotated[
        str,
        typer.Option(
            metavar="WAY",
            help="How to draw: auto (the best that the terminal can show), kitty, sixel, truecolor, 256 or plain.",
        ),
    ] = "auto",
    colours: Colours = "grey",
    *,
    settings: Settings,
) -> None:
    """Draw a frame in the terminal, with minimum, maximum, mean, number of saturated pixels, and histogram."""
    from vfs.cli.look import frame_lines
    from vfs.cli.screen import screen
    from vfs.pictures.colour_maps import choose

    choose(colours)
    shown = screen(graphics)
    put("\n".join(frame_lines(open_set([dataset], settings, main=True), position, shown)))


@_command(
    "Show what vfs does, on a small scan.",
    "vfs demo",
    "vfs demo --open",
    "vfs demo --keep demo && vfs info demo",
    "vfs demo --examples examples",
)
def demo(
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep", metavar="DIR", help="Write the files of the scan into this new folder.", rich_help_panel=USUAL
        ),
    ] = None,
    examples: Annotated[
        str | None,
        typer.Option(
            "--examples",
            metavar="DIR",
            help="Only write the files of the tutorials (51 MB) into this new folder: a scan of patterns, and a map of"
            " spectra.",
        ),
    ] = None,
    open_: Annotated[
        bool,
        typer.Option(
            "--open", help="Then open the page of the scan in a browser, until Ctrl-C.", rich_help_panel=USUAL
        ),
    ] = False,
) -> None:
    """Write a small scan, mount it, read it back through zarr, compare, and draw a frame.

    The scan consists of several files. Nothing is left behind, unless --keep is given.
    """
    from vfs.cli.demo import demo as run
    from vfs.cli.demo import write_examples

    if examples is not None:
        if keep is not None or open_:
            raise OptionError("--examples: writes files and shows nothing; leave out --keep and --open")
        put("\n".join(write_examples(examples)))
        return
    with signals(terminated, signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: what was made is removed
        run(keep, then=_page if open_ else None)


def _page(dataset: str) -> None:
    """Serve a data set and open its page in a browser, until Ctrl-C."""
    app(["serve", "--open", dataset], prog_name="vfs", standalone_mode=False)


@_command("Say what works here, what is missing, what to type.", "vfs doctor", "vfs doctor --compile")
def doctor(
    json_: Json = False,
    compile_: Annotated[
        bool,
        typer.Option(
            "--compile",
            help="Compile the kernels that first uses of vfs need instead, by small sets in a temporary folder.",
        ),
    ] = False,
) -> None:
    """Say what is here: versions, FUSE, compiled kernels, limits, browser; what is missing, and what to type for it.

    It asks no network, changes nothing, and says only the names of credentials.
    """
    if compile_:
        refuse({"--json": json_}, "with --compile, which prints nothing for programs")
        from vfs.cli.first_uses import compiled

        with signals(terminated, signal.SIGTERM, signal.SIGHUP):
            compiled(lambda words: app(words, prog_name="vfs", standalone_mode=False, obj=words), say)
        return
    from vfs.cli import doctor as machine

    found = machine.findings()
    put(document(machine.as_json(found)) if json_ else "\n".join(machine.as_text(found, width())))


@_command(
    "List the pages of the manual, print one, or search them.",
    "vfs docs",
    "vfs docs mount",
    "vfs docs recipes | less",
    "vfs docs --search scan shape",
)
def docs(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Name of a page. Without it, list the pages.")
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS",
            help="Print the paragraphs that have all of these words instead, of TOPIC or of all pages.",
            rich_help_panel=USUAL,
        ),
    ] = None,
    *,
    context: typer.Context,
) -> None:
    """Print a page of the manual: laid out on a terminal, as Markdown into a file or pipe."""
    from vfs.cli.manual import show

    topics = words or []
    if search is not None:  # all words behind it are looked for
        given = context.obj
        before = next(k for k, word in enumerate(given) if word == "--search" or word.startswith("--search=")) - 1
        topics, search = topics[:before], " ".join([search, *topics[before:]])
    if len(topics) > 1:
        raise OptionError(f"expected one TOPIC, found {', '.join(topics)}; --search {' '.join(topics)} looks for words")
    show(topics[0] if topics else None, search)


@_command(
    "Let a shell complete what is typed.",
    'eval "$(vfs completion bash)"      # in ~/.bashrc',
    'eval "$(vfs completion zsh)"       # in ~/.zshrc, after compinit',
    "vfs completion fish | source       # in ~/.config/fish/config.fish",
)
def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORDS]", help="Words after `vfs`: print what the last one may become instead."),
    ] = None,
) -> None:
    """Print what a shell has to run to complete commands, options, formats and their options, arrays and results.

    What comes after `--array`, `--main` and `--hide` is found in the file that stands before it.
    """
    from vfs.cli.completion import completed, script

    said = script(shell)
    if words is not None:
        commands = typer.main.get_command(_only(words[:-1])).commands  # type: ignore[attr-defined]
        said = "\n".join(completed(commands, words))
    if said:
        put(said)


@contextmanager
def _process() -> Iterator[None]:
    """Set up a process for a command: print warnings in one line, and escape names that are not UTF-8."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    notice.ask()
    with warnings.catch_warnings():
        told: set[str] = set()  # a set that several arguments name warns once

        def once(message: Warning | str, *where: Any, **how: Any) -> None:
            if (text := str(message)) not in told:
                told.add(text)
                say(f"warning: {text}")

        warnings.showwarning = once
        warnings.simplefilter("always", IncompleteWarning)  # whatever -W or PYTHONWARNINGS say
        yield


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: the words after `vfs`; None: the arguments of this process.

    Returns: the exit status, see the docstring of the module.
    """
    debug = bool(os.environ.get("VFS_DEBUG"))
    try:
        with _process(), wording.shell():
            words = sys.argv[1:] if arguments is None else arguments
            given = _with_command([without_query(word) for word in words])  # no command can show a signature then
            status = _only(given)(given, prog_name="vfs", standalone_mode=False, obj=given)
            sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except BrokenPipeError:
        give_up(1)
        return 1  # typer returns the same if it notices first
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except VfsError as error:
        if debug:
            raise
        return _failed(str(error), 2)
    except MemoryError as error:
        if debug:
            raise
        return _failed(str(error) or "there is not enough memory", 2)
    except Exception as error:
        if hasattr(error, "format_message"):  # an error of click, which newer typers include under another name
            return _failed(_usage(error), 2)
        if debug:
            raise
        if _current_folder_removed():
            return _failed("the current folder is not there any more; change into one that is", 2)
        return _failed(f"{type(error).__name__}: {error} (this is a bug in vfs; VFS_DEBUG=1 shows where)", 1)


def _only(arguments: list[str]) -> typer.Typer:
    """Return the app with the command that arguments name first, or with the names of all: to make the options of each
    takes longer than most commands run.
    """
    named = [command for command in app.registered_commands if arguments[:1] == [_name(command)]]
    if not named and {_name(command) for command in app.registered_commands}.isdisjoint(arguments):
        named = [_without_options(command) for command in app.registered_commands]
    if not named:
        return app
    small = copy(app)
    small.registered_commands = named
    return small


def _without_options(command: Any) -> Any:
    """Return what `vfs --help` says of a command."""
    short = copy(command)
    short.name, short.callback = _name(command), lambda: None
    return short


def _name(command: Any) -> str:
    return str(command.name or command.callback.__name__)


def _with_command(arguments: list[str]) -> list[str]:
    """Put `serve --open` in front of arguments that begin with a data set; if that is a folder, `--tree`, too.

    What exists, or is written as only a file is (with a dot, a slash or a pattern), is a data set.
    """
    first = next(iter(arguments), "-")
    commands = {_name(command) for command in app.registered_commands}
    if first.startswith("-") or first in commands:
        return arguments
    if not (os.path.lexists(first) or os.sep in first or "." in first or glob.has_magic(first)):
        return arguments
    tree = ["--tree"] if is_folder(first) and not is_zarr(first) and "--tree" not in arguments else []
    return ["serve", "--open", *tree, *arguments]


def _usage(error: Any) -> str:
    """Return the message for a wrong call: the mistake, what was expected, and which help to read."""
    context = getattr(error, "ctx", None)
    if context is None:
        return f"{error.format_message().rstrip('.')} (see vfs --help)"
    said, command = error.format_message().rstrip("."), context.command
    if (
        type(error).__name__ == "MissingParameter"
        and error.param in command.params
        and error.param.param_type_name == "argument"
    ):
        wanted = [param for param in command.params if param.param_type_name == "argument"]
        expected = " ".join(f"{param.metavar}{'…' if param.nargs == -1 else ''}" for param in wanted)
        target = str(context.params.get("target") or "")  # of `vfs reduce FILE bf=disk(…)`, which has no OUT
        missing = "OUT" if re.fullmatch(r"[\w.-]+=\w+(\(.*)?", target, re.DOTALL) else wanted[-1].metavar
        said = f"expected {expected}, {missing} is missing"
    elif said.startswith("No such command") and "Did you mean" not in said:
        said += f"; there are {', '.join(command.list_commands(context))}"
    return f"{said} (see {context.command_path} --help)"


def _current_folder_removed() -> bool:
    """Return True if the current folder was removed."""
    with suppress(FileNotFoundError):
        return not os.getcwd()
    return True


def _failed(message: str, status: int) -> int:
    say(" ".join(message.split()))
    return status
