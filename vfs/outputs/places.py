"""Where an output is written: a folder or a file, a zip file, or a store of objects; and what is done there.

What is unfinished lies beside its final name, with a journal of how far it is (`vfs.outputs.journals`); the state of
a pass (`vfs.reduce.kept`) does so, too. Files of units of a store are written into a folder of this machine, under
temporary names, and then *kept*: flushed and renamed, moved into the archive, or sent. In the end come the documents,
the sums (`vfs.outputs.sums`), and last what makes it a store: its name, or the document of its root.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from io import BytesIO
from typing import BinaryIO, Self

from vfs.errors import OptionError
from vfs.model.naming import ROOTS
from vfs.new_files import create_anew, folder_below, replacing
from vfs.outputs.buckets import Bucket, bucket_name
from vfs.outputs.journals import MarksFile, MarksObjects
from vfs.outputs.outputs import (
    TEMPORARY,
    appear,
    check_target,
    flush_together,
    folders_above,
    seal,
    unwritten,
    whole,
)
from vfs.outputs.place import OutputPlace
from vfs.outputs.sums import Mark, Subject, read_sums
from vfs.outputs.zipped import Archive, is_zipped


def place_of(target: str | os.PathLike[str], what: str = "export") -> OutputPlace:
    """Return where an output is written, by its name.

    Args:
        what: an "export", or a "reduction", of which the state is kept while it is under way.

    Raises:
        OptionError: it is a URL that nothing is written to, or that of a zip file.
        DependencyError: obstore is not installed.
        SourceError: there is no such store of objects, as far as obstore can tell.
    """
    url = bucket_name(target)
    if not url:
        return (ZipPlace if is_zipped(target) else FolderPlace)(target, what)
    if is_zipped(url):
        raise OptionError(f"{url}: a zip file is written on this machine; export it here, and copy it")
    return BucketPlace(url, what)


class FolderPlace(OutputPlace):
    """A folder, or a file of results. It must not exist, but the folder above it must.

    While it is unfinished it must stay where it is.
    """

    def __init__(self, target: str | os.PathLike[str], what: str) -> None:
        target = os.path.abspath(target)
        super().__init__(target, f"{target}.part", what)
        self.folder = self.holds

    def exists(self) -> bool:
        return self.there(self.target)

    def there(self, name: str) -> bool:
        return os.path.lexists(name)

    def open(self, name: str) -> BinaryIO:
        return open(name, "rb")

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        with replacing(name, os.path.basename(_unfinished_name(name))) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())

    def delete(self, name: str) -> None:
        for one in (name, _unfinished_name(name)):
            with suppress(FileNotFoundError):
                os.unlink(one)

    def journal(self) -> MarksFile:
        return MarksFile(self.marks, self.what)

    def read_sums(self) -> tuple[Subject, Iterator[Mark]]:
        try:
            return read_sums(partial(self.open, self.sums))
        except OSError as error:
            if self.there(self.sums):  # a folder, a link that leads nowhere
                raise ValueError(error.strerror) from None
            raise

    def check(self, resume: bool) -> bool:
        check_target(self.target, replace=True)
        return super().check(resume)

    def check_free(self, replace: bool) -> None:
        check_target(self.target, replace)

    def whole(self) -> AbstractContextManager[str]:
        return whole(self.target)

    def _unfinished(self) -> bool:
        return self.begun()

    def make(self, documents: Mapping[str, bytes]) -> None:
        os.makedirs(self.folder, exist_ok=True)

    def __enter__(self) -> Self:
        self._descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        return self

    def __exit__(self, *raised: object) -> None:
        os.close(self._descriptor)

    def keep(self, paths: Sequence[str]) -> int:
        return seal(paths, self.folder)

    def has(self, paths: Sequence[str], size: int) -> bool:
        found = 0
        for path in paths:
            with suppress(FileNotFoundError):
                found += os.stat(path, follow_symlinks=False).st_size
        return found == size

    def finish(self, documents: Mapping[str, bytes], sums: Iterable[bytes]) -> int:
        with self.writing(self.sums) as file:
            file.writelines(sums)
            self._check_folder()
            # The root's comes last, with what is above all chunks
            written = [self._write_document(*one) for one in reversed(list(documents.items()))]
            flush_together([*written, *folders_above(written, self.folder)])
            self._check_folder()
        appear(self.folder, self.target)
        return sum(map(len, documents.values()))

    def _write_document(self, key: str, text: bytes) -> str:
        """Write a document, and return its name."""
        above, _, name = key.rpartition("/")
        with folder_below(self.folder, above) as folder, open(create_anew(name, folder=folder), "wb") as file:
            file.write(text)
        return f"{self.folder}/{key}"

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _check_folder(self) -> None:
        """Check that the folder is the one that files were written to.

        Raises:
            OptionError: it was removed or moved, so that what was written is not all there.
        """
        _check_same(self._descriptor, self.folder)


def _unfinished_name(name: str) -> str:
    """Return the name that a file has until it is whole."""
    return f"{name}.new" if name.endswith(".part") else f"{name}.part"


def _check_same(descriptor: int, path: str) -> None:
    """Check that a name is still that of the file or folder that is open.

    Raises:
        OptionError: it is not.
    """
    try:
        same = os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        same = False
    if not same:
        raise OptionError(f"{path}: was removed or replaced while it was written")


class ZipPlace(FolderPlace):
    """One zip file. It lies in the folder while it is unfinished."""

    by_many = False
    _archive: Archive

    def __init__(self, target: str | os.PathLike[str], what: str) -> None:
        super().__init__(target, what)
        self._path = f"{self.folder}/{os.path.basename(self.target)}"

    def check(self, resume: bool) -> bool:
        complete = super().check(resume)
        if complete and self.noted():  # it was killed before the folder was gone
            self.clear()
        return complete

    def _unfinished(self) -> bool:
        return os.path.lexists(self._path)

    def make(self, documents: Mapping[str, bytes]) -> None:
        super().make(documents)
        self._archive = Archive(self._path, self.folder, documents)

    def __exit__(self, *raised: object) -> None:
        self._archive.abandon()
        super().__exit__(*raised)

    def keep(self, paths: Sequence[str]) -> int:
        return self._archive.take(paths)

    def has(self, paths: Sequence[str], size: int) -> bool:
        return self._archive.has(paths, size)

    def check_units(self, units: Iterable[tuple[Sequence[str], int]]) -> None:
        """Do nothing: the archive is open, and `finish` looks whether it is the one of its name."""

    def finish(self, documents: Mapping[str, bytes], sums: Iterable[bytes]) -> int:
        with self.writing(self.sums) as file:
            file.writelines(sums)
            _check_same(self._archive.descriptor, self._path)
            self._archive.close()
            self._check_folder()
        appear(self._path, self.target)
        self.clear()
        return sum(map(len, documents.values()))


class BucketPlace(OutputPlace):
    """Objects of a store, which cannot be renamed: they have their names at once, and the document of the root is last.

    Without it nobody takes them for a store. Files of units wait on the disk of this machine until they are sent. While
    results are sent there is an object `OUT.zarr.part`: what a process left that was killed meanwhile is known by it.
    """

    everywhere = True

    def __init__(self, target: str, what: str) -> None:
        super().__init__(target, target if what == "export" else f"{target}.part.state", what)
        self._bucket = Bucket(target)
        self._roots = [f"{target}/{key}" for key in ROOTS]
        self._sending = f"{target}.part"
        self._sizes: dict[str, int] = {}

    def exists(self) -> bool:
        return any(self._bucket.read_all(self._roots))

    def there(self, name: str) -> bool:
        return self._bucket.any(name) or self._bucket.read(name) is not None

    def open(self, name: str) -> BytesIO:
        found = self._bucket.read(name)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return BytesIO(found)

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        file = BytesIO()
        yield file
        self._bucket.write(name, file.getvalue())

    def delete(self, name: str) -> None:
        self._bucket.delete([name])

    def journal(self) -> MarksObjects:
        return MarksObjects(self._bucket, self.marks, f"{self.holds} and {self.marks}", self.what)

    def read_sums(self) -> tuple[Subject, Iterator[Mark]]:
        return read_sums(partial(BytesIO, self.open(self.sums).getvalue()))

    def check_free(self, replace: bool) -> None:
        if replace:
            return
        with self.errors():
            taken = self._bucket.any(self.target) and not self._left()
        if taken:
            raise OptionError(f"{self.target}: exists already; remove it, or give another name")

    def _left(self) -> bool:
        """Return True if the objects were left by a process that was killed while it sent results."""
        return self._bucket.read(self._sending) is not None and not self.exists()

    @contextmanager
    def whole(self) -> Iterator[str]:
        self.check_free(replace=False)
        with self.errors(), tempfile.TemporaryDirectory(prefix="vfs-results-") as folder:
            yield folder
            self._send(folder)

    def _send(self, folder: str) -> None:
        """Make objects of the files of a store. What fails leaves nothing."""
        files = [os.path.join(below, name) for below, _, names in os.walk(folder) for name in names]
        objects = {f"{self.target}/{os.path.relpath(file, folder)}": file for file in files}
        if self._left():
            self._bucket.delete([name for name in self._bucket.sizes(self.target) if name not in objects])
        try:
            self._bucket.write(self._sending, b"vfs reduce sends results, or was killed meanwhile\n")
            for last in (False, True):
                self._bucket.upload([(file, name) for name, file in objects.items() if (name in self._roots) is last])
            self._bucket.delete([self._sending])
        except BaseException:
            with suppress(OSError):
                self._bucket.delete([*self._bucket.sizes(self.target), self._sending])
            raise

    def make(self, documents: Mapping[str, bytes]) -> None:
        self._sizes = self._bucket.sizes(self.target)

    def __enter__(self) -> Self:
        self.folder = tempfile.mkdtemp(prefix="vfs-export-")
        return self

    def __exit__(self, *raised: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def keep(self, paths: Sequence[str]) -> int:
        size = sum(os.stat(path + TEMPORARY).st_size for path in paths)
        self._bucket.upload([(path + TEMPORARY, self._url(path)) for path in paths])
        for path in paths:
            os.unlink(path + TEMPORARY)
        return size

    def has(self, paths: Sequence[str], size: int) -> bool:
        return sum(self._sizes.get(self._url(path), 0) for path in paths) == size

    def check_units(self, units: Iterable[tuple[Sequence[str], int]]) -> None:
        self._sizes = self._bucket.sizes(self.target)
        super().check_units(units)

    def finish(self, documents: Mapping[str, bytes], sums: Iterable[bytes]) -> int:
        below = [key for key in documents if "/" in key]
        for key in below:
            self._bucket.write(f"{self.target}/{key}", documents[key])
        with self.writing(self.sums) as file:
            file.writelines(sums)
        for key in sorted(documents.keys() - below, key=lambda key: (key in ROOTS, key)):
            self._bucket.write(f"{self.target}/{key}", documents[key])
        return sum(map(len, documents.values()))

    def clear(self) -> None:
        self._bucket.delete([*self._bucket.sizes(self.target)])

    def unwritten(self, error: OSError) -> OptionError:
        if str(error.filename or "").startswith(self._bucket.root):
            return unwritten(self.target, error)
        said = error.strerror or error
        return OptionError(
            f"{self.target}: files cannot be written to {tempfile.gettempdir()} before they are sent: {said}; TMPDIR"
            " names another folder"
        )

    def _url(self, path: str) -> str:
        """Return the URL of the object that a file below the folder becomes."""
        return f"{self.target}/{os.path.relpath(path, self.folder)}"
