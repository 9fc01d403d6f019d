"""Defines the fields of options: `option` makes one, `About` describes it, and `known` lists those of a class.

The module imports only the standard library, because `vfs --help` needs the fields and must come at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, get_type_hints

Saved = Literal["as it is", "dtype", "numbers", "positions", "image", "reductions", "calibration", "names", "never"]
"""The ways in which an option stands in a description (`*.vfs.json`).

"as it is": its value. "dtype": the name of a dtype. "numbers": a number, several, or their text.
"positions": positions of the scan. "image": numbers, a file, or an array of the set. "reductions": name -> text.
"calibration": axis -> step, offset and unit. "names": a list of texts. "never": not at all; a description that has
it is refused.
"""

P = ParamSpec("P")

Scope = Literal["any", "one set", "reading"]
"""The things that an option may be about.

"any": any data set. "one set": a single data set; the option is refused for a whole folder of data
sets. "reading": how elements are read, not which elements there are.
"""


@dataclass(frozen=True)
class About:
    """Describes an option, beside its name, type and default.

    Attributes:
        help: one sentence or two: the help of the command line, and the first sentences in docstrings.
        metavar: name of the value on the command line.
        more: text that follows `help` in docstrings.
        saved: see `Saved`.
        scope: see `Scope`.
        several: the command line takes it several times; the value is a list.
        hidden: the help of the command line leaves it out.
        group: heading under which the help of the command line has it; "" for those of the command itself.
        asked: somebody who looks at a set may ask for it, a stranger too: see `vfs.sets.reopening`. Such an option
            names no file, and says what is shown, not how files are read.
    """

    help: str
    metavar: str | None = None
    _: KW_ONLY
    more: str = ""
    saved: Saved = "as it is"
    scope: Scope = "any"
    several: bool = False
    hidden: bool = False
    group: str = ""
    asked: bool = False


FILES, SCAN, PIXELS = "Files and arrays", "The scan", "Pixels"
READING, GROWING = "How data is read", "Sets that are still being written"
"""Groups of options in the help of the command line."""
USUAL = "Usual options"
"""The group of those that people look for first, which a command names."""


def _option_of(about: Callable[P, About]) -> Callable[Concatenate[Any, P], Any]:
    """Return what makes options: it takes what `about` takes, after the default."""

    def option(default: Any, /, *args: P.args, **given: P.kwargs) -> Any:
        return field(default=default, metadata={"about": about(*args, **given)})

    return option


option = _option_of(About)
"""`option(default, help, metavar, ...)` makes a field of a dataclass that is an option: `About` has its arguments.

Values that the annotation of the field does not allow raise `OptionError`.
"""


class Known(NamedTuple):
    """An option of a class: its default, the types that it takes, and its description."""

    default: Any
    annotation: Any
    about: About


def known(kind: type[Any]) -> Mapping[str, Known]:
    """Return the options of a class by name, in their order."""
    if kind not in _KNOWN:
        hints = get_type_hints(kind)
        _KNOWN[kind] = {
            each.name: Known(each.default, hints[each.name], each.metadata["about"]) for each in fields(kind)
        }
    return _KNOWN[kind]


_KNOWN: dict[type[Any], dict[str, Known]] = {}
