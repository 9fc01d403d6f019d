"""Makes the options for opening data the flags of commands, and takes their values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vfs.errors import OptionError
from vfs.model.open_options import OpenOptions
from vfs.model.option_fields import FILES, READING, USUAL, Known, Scope, known
from vfs.model.options import from_text, kinds, named
from vfs.model.wording import flag

if TYPE_CHECKING:
    from vfs.formats import Format


Datasets = Annotated[
    list[str],
    typer.Argument(
        metavar="DATASET",
        help=(
            "A file of a data set (scan.hdr, scan.mib, set.ome.tif), a quoted glob ('part*.raw'), or a description "
            "(*.vfs.json)."
        ),
    ),
]


OF_IMAGES = ("ngff", "pyramid_cache", "pyramid_cache_size")
"""Options of the faces that show images with levels, which have no effect on commands that show none."""


Colours = Annotated[
    str, typer.Option(metavar="MAP", help="Colours of pictures: grey, viridis, magma, inferno or diverging.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


@dataclass(frozen=True)
class Settings:
    """The options for opening data that stand on a command line.

    Attributes:
        options: the options for every format.
        format_options: option of the format -> its text, from `-o KEY=VALUE`.
        zarr_format: 3 or 2; None if the command line does not say.
    """

    options: OpenOptions
    format_options: Mapping[str, str]
    zarr_format: int | None

    def given(self, *scopes: Scope) -> dict[str, bool]:
        """Return the options for every format whose values are not the default, as {"--name": True}.

        Args:
            scopes: return only options about one of these.
        """
        return {
            flag(name): True for name in self.options.said() if known(type(self.options))[name].about.scope in scopes
        }

    def format_options_of_all(self) -> dict[str, Any]:
        """Return the options of the format, converted, for all data sets of a folder.

        Raises:
            OptionError: such options are given without --format.
        """
        from vfs.formats import by_name

        if self.format_options and not self.options.format:
            raise OptionError(
                f"-o {next(iter(self.format_options))}: an option of a format; for a folder, name the format with"
                " --format"
            )
        return converted(by_name(self.options.format), self.format_options) if self.options.format else {}


def _flags(options: type[OpenOptions], refused: Collection[str], usual: Collection[str]) -> list[inspect.Parameter]:
    """Return the options of a class as parameters for typer; those that are refused are in no help, usual ones first.

    They include -o and --zarr-format, which are fields of no class. Options that the class adds to
    `OpenOptions` come first in the help, since they belong to the command itself.
    """
    common = known(OpenOptions)
    own = [_flag(name, option, refused, usual) for name, option in known(options).items() if name not in common]
    first, *others = [_flag(name, option, refused, usual) for name, option in common.items()]
    version = typer.Option(
        metavar="3|2",
        help="Version of zarr: export writes this one, mount shows only this one, info prints its metadata.",
        hidden="zarr_format" in refused,
        rich_help_panel=READING,
    )
    zarr_format = _parameter("zarr_format", Annotated[int | None, version], None)
    return [*own, first, _parameter("option", _PAIRS, None), *others, zarr_format]


_PAIRS = Annotated[
    list[str] | None,
    typer.Option(
        "-o",
        "--option",
        metavar="KEY=VALUE",
        help="Set an option of the format (`vfs formats` lists them). May be repeated.",
        rich_help_panel=FILES,
    ),
]


def _flag(name: str, option: Known, refused: Collection[str], usual: Collection[str]) -> inspect.Parameter:
    """Return an option as a parameter for typer.

    Typer parses numbers and switches; other values stay texts, which the user of the option parses.
    """
    default, annotation, about = option
    taken: Any = list[str] if about.several else _TYPED.get(kinds(annotation), str)
    names = (flag(name),) if taken is bool else ()  # one flag, not --name/--no-name
    typed = typer.Option(
        *names,
        metavar=about.metavar,
        help=about.help,
        hidden=about.hidden or name in refused,
        rich_help_panel=USUAL if name in usual else about.group or None,
    )
    return _parameter(name, Annotated[taken | None if default is None else taken, typed], default)


_TYPED = {(bool,): bool, (int,): int, (float,): float}


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _settings(
    options: type[OpenOptions], *, option: Sequence[str] | None, zarr_format: int | None, **common: Any
) -> Settings:
    """Make `Settings` from the values that typer parsed.

    Raises:
        OptionError: a value is empty, or the zarr format is neither 3 nor 2.
    """
    if zarr_format not in (None, 2, 3):
        raise OptionError(f"--zarr-format {zarr_format}: expected 3 or 2")
    for name, value in common.items():
        if value == "":
            raise OptionError(f"{flag(name)}: expected a value, found an empty one")
    common = {name: None if value == [] else value for name, value in common.items()}  # what may be given several times
    return Settings(options(**common), _pairs(option or ()), zarr_format)


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    """Split the texts of `-o` into {key: value}. Keys may be written with - for _.

    Raises:
        OptionError: a text is not KEY=VALUE; a key is given twice.
    """
    given: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise OptionError(f"-o {text}: expected KEY=VALUE (`vfs formats` lists the options)")
        key = key.replace("-", "_")
        if key in given:
            raise OptionError(f"-o {key}: given twice, as {given[key]} and as {value}")
        given[key] = value
    return given


def opens(
    options: type[OpenOptions] = OpenOptions,
    refused: Collection[str] = (),
    where: str = "",
    usual: Collection[str] = (),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options for opening data to a command, which receives them as its argument `settings`.

    Args:
        options: the class whose fields are the options.
        refused: names of options that have no effect on this command: an error, and not in its help.
        where: completes the message "--option has no effect …".
        usual: names of options that the help has first.
    """

    return partial(_Opening, options, refused, where, usual)


class _Opening:
    """A command with the options for opening data, which are made when typer asks for its signature: of one command in
    a process.
    """

    def __init__(
        self,
        options: type[OpenOptions],
        refused: Collection[str],
        where: str,
        usual: Collection[str],
        command: Callable[..., None],
    ) -> None:
        self.options, self.refused, self.where, self.usual, self.command = options, refused, where, usual, command
        self.__name__, self.__doc__ = command.__name__, command.__doc__

    @cached_property
    def flags(self) -> list[inspect.Parameter]:
        return _flags(self.options, self.refused, self.usual)

    @cached_property
    def __signature__(self) -> inspect.Signature:
        signature = inspect.signature(self.command, eval_str=True)
        own = [p.replace(kind=p.KEYWORD_ONLY) for p in signature.parameters.values() if p.name != "settings"]
        return inspect.Signature([*own, *self.flags])

    @property
    def __annotations__(self) -> dict[str, Any]:  # type: ignore[override]
        return {p.name: p.annotation for p in self.__signature__.parameters.values()}

    def __call__(self, **given: Any) -> None:
        typed = {parameter.name: given.pop(parameter.name) for parameter in self.flags}
        settings = _settings(self.options, **typed)
        said = settings.options.said() | {"zarr_format": settings.zarr_format}
        refuse({flag(name): said.get(name) for name in self.refused}, self.where)
        self.command(**given, settings=settings)


def refuse(given: Mapping[str, object], where: str) -> None:
    """Refuse options that would have no effect.

    Args:
        given: option as it is typed -> its value, false if it is not given.
        where: completes the message "--option has no effect …".

    Raises:
        OptionError: one of them is given.
    """
    for name, value in given.items():
        if value:
            raise OptionError(f"{name} has no effect {where}")


def converted(kind: Format, given: Mapping[str, str]) -> dict[str, Any]:
    """Convert the texts of `-o` to the types of the format's options.

    For headerless data, `-o dtype` says what the pixels in the file are; `--dtype` says what to
    convert them to.

    Raises:
        OptionError: the format has no such option, or a text is not a value of it.
    """
    texts = dict(given)
    if "dtype" in texts and "stored_dtype" in kind.options:
        if "stored_dtype" in texts:
            raise OptionError("-o dtype and -o stored_dtype are the same option; give one")
        texts["stored_dtype"] = texts.pop("dtype")
    kind.check_options(texts)
    found = {}
    for name, text in texts.items():
        annotation = kind.options[name].annotation
        try:
            found[name] = from_text(text, annotation)
        except ValueError:
            raise OptionError(f"-o {name}={text}: expected {named(annotation)}") from None
    return found
