"""What a shell may complete: commands, options, formats and their options, arrays, results, pages of the manual.

A shell runs `vfs completion SHELL -- WORDS…` with the words after `vfs`; the last one is being typed. It prints
what that may become, a line each; nothing leaves it to the shell, which offers files. What ends in = goes on: no
shell puts a space behind it. For bash = and : are words, which its function joins to those beside them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from vfs.errors import OptionError, VfsError

_BASH = """\
_vfs() {
    local IFS=$'\\n' word joined= before=
    local -a words=()
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        if [[ $joined || $word == [=:]* ]] && (( ${#words[@]} )); then words[-1]+=$word; else words+=("$word"); fi
        [[ $word == *[=:] ]] && joined=1 || joined=
    done
    word=${words[-1]}
    [[ $COMP_WORDBREAKS == *=* ]] && before=${word%"${word##*[=:]}"}
    COMPREPLY=($(vfs completion bash -- "${words[@]}" 2>/dev/null))
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
    [[ ${#COMPREPLY[@]} -eq 1 && $COMPREPLY == *= ]] && compopt -o nospace
}
complete -o default -o bashdefault -F _vfs vfs"""
_ZSH = """\
#compdef vfs
_vfs() {
    local -a found
    found=(${(f)"$(vfs completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#found )); then compadd -S '' -- ${(M)found:#*=}; compadd -- ${found:#*=}; else _files; fi
}
if [[ $funcstack[1] = _vfs ]]; then _vfs "$@"; else compdef _vfs vfs; fi"""
_FISH = """\
function __vfs_complete
    set -l typed (commandline -ct)
    set -l found (vfs completion fish -- (commandline -opc)[2..] "$typed" 2>/dev/null)
    if count $found >/dev/null
        string join \\n -- $found
        return
    end
    set -l before (string match -r -- '^--[^=]*=' "$typed")
    for path in (__fish_complete_path (string replace -- "$before" '' "$typed"))
        echo -- "$before$path"
    end
end
complete -c vfs -f -a '(__vfs_complete)'"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""Shell -> what makes it ask `vfs`."""
VALUES: dict[str, tuple[str, ...]] = {
    "--backend": ("auto", "mmap", "buffered", "direct"),
    "--chunks": ("auto", "frames", "scan", "balanced"),
    "--zarr-format": ("3", "2"),
    "--graphics": ("auto", "kitty", "sixel", "truecolor", "256", "plain"),
    "--log-level": ("error", "warning", "info", "debug"),
    "--to": ("kerchunk", "icechunk"),
}
"""Options that have few values."""


def script(shell: str) -> str:
    """Return what a shell has to run.

    Raises:
        OptionError: there is none for it.
    """
    if shell not in SCRIPTS:
        raise OptionError(f"completion {shell}: expected {', '.join(SCRIPTS)}")
    return SCRIPTS[shell]


def completed(commands: dict[str, Any], words: Sequence[str]) -> list[str]:
    """Say what the last word may become.

    Args:
        commands: name -> command, as click has them.
        words: those after `vfs`; a command comes first.

    Returns: nothing where a file is expected, or anything.
    """
    *before, typed = words or [""]
    if not before:
        found: Iterable[str] = ["--help", "--version"] if typed.startswith("-") else commands
    elif before[0] not in commands:
        return []
    else:
        found = _of_command(before[0], commands[before[0]].params, before[1:], typed)
    return [one for one in found if one.startswith(typed)]


def _of_command(name: str, params: Sequence[Any], before: Sequence[str], typed: str) -> Iterable[str]:
    options = {flag: param for param in params if param.param_type_name == "option" for flag in param.opts}
    last = options.get(before[-1]) if before else None
    if last is not None and not last.is_flag:
        return _values(before[-1], before, options, typed)
    flag, equals, value = typed.partition("=")
    if equals and flag in options:
        return [f"{flag}={one}" for one in _values(flag, [*before, flag], options, value)]
    if typed.startswith("-"):
        return ["--help", *(flag for flag, param in options.items() if flag.startswith("--") and not param.hidden)]
    own = _ARGUMENTS.get(name)
    return own(_given(before, options)) if own else ()


def _given(before: Sequence[str], options: dict[str, Any]) -> list[str]:
    """Return the arguments among words, without options and their values."""
    found, skip = [], False
    for word in before:
        if not skip and not word.startswith("-"):
            found.append(word)
        skip = not skip and word in options and not options[word].is_flag
    return found


def _values(flag: str, before: Sequence[str], options: dict[str, Any], typed: str) -> Iterable[str]:
    """Return values of an option that stands before what is typed."""
    if flag == "--format":
        from vfs.formats import formats

        return formats()
    if flag in ("-o", "--option"):
        return _format_options(before, _given(before[:-1], options), typed.partition("="))
    if flag in ("--array", "--main", "--hide"):
        return _arrays(_given(before[:-1], options))
    if flag == "--derive":
        return _results()
    return VALUES.get(flag, ())


def _format_options(before: Sequence[str], datasets: Sequence[str], typed: tuple[str, str, str]) -> list[str]:
    """Return the options of the format that is named, or that the first file has; else those of all. Behind the = of
    one, its values, where it has few.
    """
    from vfs.formats import by_name, detect, formats
    from vfs.model.options import few
    from vfs.sources.local import LocalSources

    named = next((before[k + 1] for k, word in enumerate(before[:-1]) if word == "--format"), None)
    try:
        kind = by_name(named) if named else detect(LocalSources(), os.path.abspath(datasets[0]))
        kinds = [kind]
    except (VfsError, IndexError):
        kinds = list(formats().values())
    key, equals, _ = typed
    if not equals:
        return sorted({f"{name}=" for kind in kinds for name in kind.options})
    taken = [kind.options[name].annotation for kind in kinds for name in kind.options if name == key.replace("-", "_")]
    return sorted({f"{key}={one}" for annotation in taken for one in few(annotation)})


def _arrays(datasets: Sequence[str]) -> list[str]:
    """Return the names of the arrays of the first data set; none where it does not open."""
    import warnings

    import vfs

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(vfs.open_group(datasets[0]))
    except (VfsError, IndexError):
        return []


def _results(given: Sequence[str] = ("", "")) -> list[str]:
    """Return the words for results that need no arguments, where DATASET and OUT are given."""
    if len(given) < 2:
        return []
    import inspect

    from vfs.reduce.spelling import KINDS

    return [
        word
        for word, kind in KINDS.items()
        if all(one.default is not one.empty for one in inspect.signature(kind).parameters.values())
    ]


def _formats(given: Sequence[str]) -> Iterable[str]:
    from vfs.formats import formats

    return () if given else formats()


def _pages(given: Sequence[str]) -> Iterable[str]:
    from vfs.cli.manual import pages

    return () if given else pages()


_ARGUMENTS: dict[str, Callable[[Sequence[str]], Iterable[str]]] = {
    "formats": _formats,
    "docs": _pages,
    "reduce": _results,
    "completion": lambda given: () if given else SCRIPTS,
}
