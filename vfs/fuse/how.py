"""Says how contents are mounted: a value that goes to the process of the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vfs.model.command_options import MountOptions


@dataclass(frozen=True, kw_only=True)
class MountHow:
    """Says how to mount.

    Attributes:
        sources: the file that names each data set, for `vfs mounts` and other programs.
        allow_other: let in other users. They can read only what they could read of the files
            themselves: see `vfs.fuse.askers`.
        workers: number of reads that are answered from sources at once; None: one per core, at least
            four.
        direct_io: the kernel keeps no pages of files, and requests are as large as those of the
            reader. This suits programs that read everything once. Files cannot be mapped shared then
            (such as `np.load(mmap_mode="r")` of the .npy face).
    """

    sources: Sequence[str] = ()
    allow_other: bool = False
    workers: int | None = None
    direct_io: bool = False

    @classmethod
    def of(cls, options: MountOptions, sources: Sequence[str]) -> MountHow:
        """Return what options say."""
        return cls(
            sources=tuple(sources),
            allow_other=options.allow_other,
            workers=options.workers,
            direct_io=options.direct_io or options.follow_blank,  # no page of a blank frame is kept
        )
