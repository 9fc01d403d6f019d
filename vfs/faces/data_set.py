"""Makes the faces of a data set.

A `Hierarchy` is one data set: its arrays under their paths. It has faces, read-only views of the same arrays::

    NAME.zarr      zarr v3: zarr.json, data/zarr.json, data/c/0/0/0/0 …
    NAME.v2.zarr   zarr v2: .zgroup, .zattrs, .zmetadata, data/.zarray, data/0/0/0/0 …
    NAME.ome.zarr, NAME.ome.v2.zarr
                   the images among them, with smaller versions, as OME-NGFF 0.5 (or 0.6) and 0.4; only if there
                   are images
    NAME.npy       the main array as one .npy file (others of two or more axes: NAME.path.of.array.npy)
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from vfs.engine.array import ArrayReader
from vfs.engine.computed import ComputedBlocks
from vfs.errors import OptionError
from vfs.faces.absence import FOLDER_ENDING
from vfs.faces.documents import recorded_of
from vfs.faces.face import GROUP, MAX_FACE_NAME_BYTES, Face, FileFace, Node, ZarrFace
from vfs.faces.ngff_versions import OME_ENDING, USUAL
from vfs.faces.npy_face import NpyFace
from vfs.faces.url_names import url_paths
from vfs.model.files import Files
from vfs.model.layout import altered
from vfs.model.naming import check_paths, first_free

if TYPE_CHECKING:
    from vfs.faces.images import Images
    from vfs.reduce.level_store import LevelStore

FILE_ENDING = ".npy"
"""Ending of the name of each face that is a file; of the main array's, all that follows the name of the set."""


FACES = ("zarr", "ome")
"""Words for the faces that are zarr hierarchies: all arrays; images as OME-NGFF."""


class FaceKind(NamedTuple):
    """A face that a data set has.

    Attributes:
        ending: ending of its name.
        zarr_format: 3 or 2; None for a file.
        root: its root node.
        make: makes it.
    """

    ending: str
    zarr_format: int | None
    root: Node
    make: Callable[[], Face]

    @classmethod
    def of_file(cls, ending: str, face: FileFace) -> FaceKind:
        """Return what a face is that is a file, and made already: its root says its size."""
        return cls(ending, None, face.root, lambda: face)


class Faces(Mapping[str, Face]):
    """Maps names to faces, each made when it is first asked for: most are never looked at.

    Args:
        kinds: name -> what the face is.

    Attributes:
        made: the faces that were made, which take no time.
    """

    def __init__(self, kinds: Mapping[str, FaceKind]) -> None:
        self.kinds = kinds
        self.made: dict[str, Face] = {}

    def __getitem__(self, name: str) -> Face:
        found = self.made.get(name)
        if found is None:
            found = self.made.setdefault(name, self.kinds[name].make())  # two threads get the same face
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.kinds)

    def __len__(self) -> int:
        return len(self.kinds)


def zarr_ending(face: str, zarr_format: int) -> str:
    """Return the ending of the name of a face that is a zarr hierarchy."""
    return f"{OME_ENDING * (face == 'ome')}{'.v2' * (zarr_format == 2)}{FOLDER_ENDING}"


def check_face(face: str, zarr_format: int) -> None:
    """Check the words by which people ask for a face that is a zarr hierarchy.

    Raises:
        OptionError: one is wrong.
    """
    if zarr_format not in (2, 3):
        raise OptionError(f"zarr_format={zarr_format!r}: expected 3 or 2")
    if face not in FACES:
        raise OptionError(f'face={face!r}: expected "zarr" or "ome"')


class Hierarchy:
    """A data set as it is shown: its name, its arrays, and its faces.

    Args:
        name: name of the data set.
        arrays: path -> array.
        attrs: attributes of the root group.
        main: path of the main array, see `vfs.model.stored.main_of`.
        stands_in: True if the real main array is absent and `main` is only the best of the
            others. Then no .npy file has the name of the data set.
        store: keeps computed levels of images for the next run; None: nothing does.
        ngff: version of OME-NGFF of the face that is a hierarchy of zarr v3.

    Raises:
        FormatError: an array cannot have its path, see `vfs.model.naming`.
    """

    def __init__(
        self,
        name: str,
        arrays: Mapping[str, ArrayReader],
        attrs: Mapping[str, Any],
        main: str,
        stands_in: bool = False,
        store: LevelStore | None = None,
        ngff: str = USUAL,
    ) -> None:
        check_paths(arrays.keys())
        self.name = name
        self.arrays = arrays
        self._attrs = attrs
        self.main = main
        self.stands_in = stands_in
        self.store = store
        self.ngff = ngff

    @cached_property
    def attrs(self) -> Mapping[str, Any]:
        """Attributes of the root group: those that are given, and in `vfs` what the main array's files say."""
        recorded = recorded_of(self.arrays[self.main])
        return {**self._attrs, "vfs": self._attrs["vfs"] | recorded} if recorded else self._attrs

    @property
    def files(self) -> Iterator[str]:
        """Paths of the files of its arrays; some of them may come several times."""
        return chain.from_iterable(array.dataset.files.paths for array in self.arrays.values())

    @cached_property
    def file_sets(self) -> list[Files]:
        """The `Files` of its arrays, each one once."""
        return list({id(array.dataset.files): array.dataset.files for array in self.arrays.values()}.values())

    @cached_property
    def time(self) -> int:
        """Modification time of the newest source when the set was opened, nanoseconds since 1970."""
        return max((int(array.dataset.files.written.max(initial=0)) for array in self.arrays.values()), default=0)

    @property
    def nbytes(self) -> int:
        """Bytes of its files when the set was opened, without those that are missing."""
        return sum(int(files.sizes[files.sizes > 0].sum()) for files in self.file_sets)

    @cached_property
    def weight(self) -> int:
        """Bytes of memory that its tables take, about. What makes computed blocks has no tables of its own."""
        datasets = [array.dataset for array in self.arrays.values()]
        tables = [altered(one, decoder=None) if isinstance(one.decoder, ComputedBlocks) else one for one in datasets]
        return 2 * sum(len(pickle.dumps(one)) for one in tables)

    def for_urls(self) -> Hierarchy:
        """Return the set as HTTP shows it: with names of arrays that need no quotes (`vfs.faces.url_names`)."""
        shown = url_paths(self.arrays)
        arrays = {shown[path]: array for path, array in self.arrays.items()}
        return Hierarchy(self.name, arrays, self.attrs, shown[self.main], self.stands_in, self.store, self.ngff)

    def zarr(self, zarr_format: int = 3, face: str = "zarr") -> ZarrFace:
        """Return a face that shows a zarr hierarchy.

        Args:
            face: "zarr" shows all arrays; "ome" the images, as OME-NGFF (`vfs.faces.ngff`).

        Raises:
            OptionError: `zarr_format` is not 3 or 2, there is no such face, or no image.
        """
        check_face(face, zarr_format)
        if face == "zarr":
            return ZarrFace(self.arrays, {"": self.attrs}, zarr_format, self.main, images=self.images)
        if not self.images:
            raise OptionError(
                f"{self.name}: has no image, that is no array with axes y and x: there is no OME-Zarr of it"
            )
        from vfs.faces.ngff import ome_face

        return ome_face(self.images.each(), self.attrs, zarr_format, self.ngff)

    @cached_property
    def images(self) -> Images:
        """The images of the set, by the paths of their arrays."""
        from vfs.faces.images import Images

        return Images(self.name, self.arrays, self.main, self.store)

    def face_kinds(self, zarr_format: int | None = None) -> list[FaceKind]:
        """Return the faces that the set has, the main one first.

        Args:
            zarr_format: 3 or 2 leaves out the face of the other format; None keeps both.
        """
        zarr = [
            FaceKind(zarr_ending(face, version), version, GROUP, partial(self.zarr, version, face))
            for face in FACES
            for version in (3, 2)
            if zarr_format in (None, version) and (face == "zarr" or self.images)
        ]
        return zarr + [FaceKind.of_file(ending, face) for ending, face in self._files().items()]

    def faces(self, zarr_format: int | None = None) -> Faces:
        """Return the faces of `face_kinds`, by the endings of their names.

        The endings follow the name of the data set: ".zarr", ".v2.zarr", ".ome.zarr", ".npy",
        ".path.of.array.npy" (equal ones become "-2.npy", "-3.npy").
        """
        return Faces({kind.ending: kind for kind in self.face_kinds(zarr_format)})

    def _files(self) -> dict[str, FileFace]:
        """Return the faces that are files, by the endings of their names."""
        found: dict[str, FileFace] = {}
        for path, array in self.arrays.items():
            if path == self.main and not self.stands_in:
                found[FILE_ENDING] = NpyFace(array)
            elif array.ndim >= 2 and len(os.fsencode(path)) <= MAX_FACE_NAME_BYTES // 2:
                name = f".{path.replace('/', '.')}"
                found[f"{first_free(name, lambda name: f'{name}.npy' in found)}{FILE_ENDING}"] = NpyFace(array)
        return found
