"""Says in `vfs info` which scan shapes a flat series of frames may have, with the options that open it so."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from vfs.model.scan_guess import ScanGuess
from vfs.sets.guessing import guesses, is_flat
from vfs.sets.opening import OpenedSet

_SHOWN = 2  # guesses
_SHOWN_OF_ALL = 8  # of those that -v shows


def as_text(group: OpenedSet, verbose: bool) -> list[str]:
    """Return a text for each guess, best first.

    Args:
        verbose: also compare frames, for which frames are read, and show shapes that only the number of frames allows.
    """
    found = _found(group, verbose)
    seen = [one for one in found if one.source != "number of frames"]
    shown = seen[:_SHOWN] if not verbose else found[:_SHOWN_OF_ALL] if not any(one.sure for one in found) else seen
    return [_said(one, verbose) for one in shown]


def as_json(group: OpenedSet) -> list[dict[str, Any]]:
    """Return the guesses, best first, as JSON can hold them. No frame is read for it."""
    return [asdict(one) | {"nav_shape": list(one.nav_shape)} for one in _found(group, False)]


def _found(group: OpenedSet, alike: bool) -> list[ScanGuess]:
    """Return guesses for a set that somebody may want as a scan, and of which no more is said than its frames."""
    options = group.opening.options
    if not is_flat(group.main) or options.sync_offset or options.line_skip:
        return []
    return guesses(group.main, group.arrays, alike=alike)


def _said(guess: ScanGuess, verbose: bool) -> str:
    """Return a line such as "rows of 257 (from the time stamps, sure): --nav-shape 255,257"."""
    lines, columns = guess.nav_shape
    why = guess.reason if verbose or not guess.sure else f"from the {guess.source}"
    skip = f" --line-skip {guess.line_skip}" if guess.line_skip else ""
    offset = f" --sync-offset {guess.sync_offset}" if guess.sync_offset else ""
    sure = "sure" if guess.sure else "not sure"
    return f"rows of {columns:,} ({why}, {sure}): --nav-shape {lines},{columns}{skip}{offset}"
