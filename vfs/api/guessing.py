"""What Python is told of a scan whose files say no shape: `guess_nav_shape`."""

from __future__ import annotations

from vfs.api.arrays import VirtualArray
from vfs.model.scan_guess import ScanGuess
from vfs.sets.guessing import MANY, guesses


def guess_nav_shape(array: VirtualArray) -> list[ScanGuess]:
    """Guess the shape of the scan that a flat series of frames was recorded as. Nothing is changed by it.

        best = vfs.guess_nav_shape(vfs.open("scan.mib"))[0]
        a = vfs.open("scan.mib", nav_shape=best.nav_shape, line_skip=best.line_skip, sync_offset=best.sync_offset)

    Time stamps, exposures and numbers of frames show where the beam returned to the next line; else frames show it,
    which are like those of the line above. At most 131,072 time stamps and 64 MiB of frames are read.

    Args:
        array: its frames are taken in the order in which they were recorded, whatever scan shape it has.

    Returns: best first, each with `nav_shape` (lines, columns), `reason`, `sure`, `source`, `line_skip` and
        `sync_offset`. The last ones are shapes that hold as many frames, squarest first. Empty if there are none.

    Raises:
        OptionError: the array has no axis of frames, or was opened with `roi`.
    """
    return guesses(array._reader, array._group._opened.arrays, most=MANY, alike=True)
