"""Where a store is written: a folder, a zip file, or a store of objects; and what is done there so that it is whole.

Files of units are written into a folder of this machine, under temporary names, and then *kept*: flushed and renamed,
moved into the archive, or sent. What has been kept is noted (`vfs.zarr.export.journal`). In the end come the
documents, the sums, and last what makes it a store: its name, or the document of its root.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Self

from vfs.errors import OptionError, VfsError
from vfs.new_files import create, create_anew, folder_below
from vfs.outputs.buckets import Bucket, bucket_name
from vfs.outputs.journals import MarkLines, MarksFile, MarksObjects
from vfs.outputs.outputs import appear, check_target, flush, flush_together, unwritten, whole
from vfs.zarr.export.files import TEMPORARY, folders_above, seal
from vfs.zarr.export.journal import Mark, Subject, read_sums, sums_in
from vfs.zarr.export.zipped import Archive, is_zipped


def sums_name(target: str | os.PathLike[str]) -> str:
    """Return the name of the file with the sums of a store."""
    return f"{os.fspath(target).rstrip('/')}.sums"


def place_of(target: str | os.PathLike[str]) -> StorePlace:
    """Return where a store is written, by its name.

    Raises:
        OptionError: it is a URL that nothing is written to, or that of a zip file.
        DependencyError: obstore is not installed.
        SourceError: there is no such store of objects, as far as obstore can tell.
    """
    url = bucket_name(target)
    if not url:
        return (ZipPlace if is_zipped(target) else FolderPlace)(target)
    if is_zipped(url):
        raise OptionError(f"{url}: a zip file is written on this machine; export it here, and copy it")
    return BucketPlace(url)


class StorePlace(ABC):
    """Where a store is written.

    `make` begins it; `with` holds it while it is written, here or by a worker.

    Args:
        target: its name.

    Attributes:
        target: its name, absolute.
        marks: the name of the journal.
        holds: the name of what holds it while it is unfinished.
        folder: a folder of this machine, below which files are written under temporary names.
        by_many: True where several processes can write.
        everywhere: True where all machines find the same by this name.
    """

    target: str
    holds: str
    folder: str
    by_many = True
    everywhere = False

    @property
    def marks(self) -> str:
        return f"{self.target}.part.marks"

    @abstractmethod
    def exists(self) -> bool:
        """Return True if there is something of this name."""

    @abstractmethod
    def begun(self) -> bool:
        """Return True if something of an unfinished store is there."""

    @abstractmethod
    def noted(self) -> bool:
        """Return True if there is a journal."""

    @abstractmethod
    def journal(self) -> MarkLines:
        """Open the journal: see `MarkLines`."""

    def check(self, resume: bool) -> bool:
        """Check that an export can begin, or go on.

        Returns: True if one is complete that this one may be: its journal is there (it was killed behind its last step
            but one), or its sums say what it is (`complete`).

        Raises:
            OptionError: something is in its way.
            OSError: that cannot be found out.
        """
        if self.exists():
            if resume and not self._unfinished():
                return True
            raise OptionError(f"{self.target}: exists already; remove it, or give another name")
        self.check_sums()
        if self.begun() and not self.noted():
            raise OptionError(f"{self.holds}: is in the way, and no export that was interrupted left it; remove it")
        return False

    def _unfinished(self) -> bool:
        """Return True if something of an unfinished store is there beside one of this name."""
        return False

    def complete(self, subject: Subject) -> int:
        """Return the bytes of the chunks of a store that is complete, from its sums.

        Raises:
            OptionError: it is another one, or nothing tells.
        """
        try:
            told, marks = self.sums()
            if told == subject:
                return sum(mark.size for mark in marks)
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            why = f"{sums_name(self.target)} does not tell of what"
        else:
            why = "was written of other files, with other options, or by other code of vfs"
        raise OptionError(f"{self.target}: exists already, and {why}; remove it, or give another name")

    @abstractmethod
    def sums(self) -> tuple[Subject, Iterable[Mark]]:
        """Read the sums of a store.

        Raises:
            FileNotFoundError: there are none.
            ValueError, KeyError, TypeError: something else has their name.
            OSError: they cannot be read.
        """

    def check_sums(self) -> None:
        """Refuse to replace a file that holds no sums.

        Raises:
            OptionError: there is such a file.
        """
        try:
            self.sums()
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError):
            name = sums_name(self.target)
            own = os.path.basename(self.target)
            raise OptionError(f"{name}: exists already, and the sums of {own} belong there; move it") from None

    @abstractmethod
    def write_sums(self, sums: Iterable[bytes]) -> None:
        """Write the sums, instead of those that are there.

        Args:
            sums: lines.

        Raises:
            OptionError, OSError: they cannot be written.
        """

    @abstractmethod
    def remove_sums(self) -> None:
        """Remove the sums, if there are any."""

    @abstractmethod
    def make(self, documents: Mapping[str, bytes]) -> None:
        """Begin a store, or go on."""

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(self, *raised: object) -> None: ...

    @abstractmethod
    def keep(self, paths: Sequence[str]) -> int:
        """Have the place hold files that were written under temporary names. Return their bytes."""

    @abstractmethod
    def has(self, paths: Sequence[str], size: int) -> bool:
        """Return True if files that were kept are there, with so many bytes.

        Units are asked for in the order of their marks.
        """

    def check_kept(self, units: Iterable[tuple[Sequence[str], int]]) -> None:
        """Check that all that was kept is still there, before a store is made of it.

        Args:
            units: paths of the files of each, and how many bytes these have.

        Raises:
            OptionError: files were removed or changed meanwhile, by somebody else.
        """
        for paths, size in units:
            if not self.has(paths, size):
                raise OptionError(
                    f"{self.holds}: files in it were removed or changed while it was written, such as"
                    f" {os.path.relpath(paths[0], self.folder)}"
                )

    @abstractmethod
    def finish(self, documents: Mapping[str, bytes], sums: Iterable[bytes]) -> int:
        """Write documents and sums, and make it a store. Return the bytes of the documents.

        Args:
            sums: lines.
        """

    @abstractmethod
    def clear(self) -> None:
        """Remove what there is of it."""

    def unwritten(self, error: OSError) -> OptionError:
        """Return what to say where it cannot be written."""
        return unwritten(self.target, error)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of the disk, or of the store of objects, into those of vfs.

        Raises:
            OptionError: it cannot be written.
        """
        try:
            yield
        except VfsError:
            raise
        except OSError as error:
            raise self.unwritten(error) from None


class FolderPlace(StorePlace):
    """A folder. It must not exist, but the folder above it must.

    While it is unfinished it must stay where it is.
    """

    def __init__(self, target: str | os.PathLike[str]) -> None:
        self.target = os.path.abspath(target)
        self.folder = self.holds = f"{self.target}.part"

    def exists(self) -> bool:
        return os.path.lexists(self.target)

    def begun(self) -> bool:
        return os.path.lexists(self.holds)

    def noted(self) -> bool:
        return os.path.lexists(self.marks)

    def journal(self) -> MarksFile:
        return MarksFile(self.marks)

    def sums(self) -> tuple[Subject, Iterable[Mark]]:
        name = sums_name(self.target)
        try:
            return read_sums(name)
        except OSError as error:
            if os.path.lexists(name):  # a folder, a link that leads nowhere
                raise ValueError(error.strerror) from None
            raise

    def write_sums(self, sums: Iterable[bytes]) -> None:
        with whole(sums_name(self.target), replace=True) as unfinished, open(create(unfinished), "wb") as file:
            file.writelines(sums)

    def remove_sums(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(sums_name(self.target))

    def check(self, resume: bool) -> bool:
        check_target(self.target, replace=True)
        return super().check(resume)

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
        with self._appearing(sums) as name:
            self._check_folder()
            # The root's comes last, with what is above all chunks
            written = [self._write_document(*one) for one in reversed(list(documents.items()))]
            flush_together([*written, name, *folders_above(written, self.folder)])
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

    @contextmanager
    def _appearing(self, sums: Iterable[bytes]) -> Iterator[str]:
        """Write the sums under a name, which is yielded to be flushed, and then give them their own.

        Raises:
            OptionError: the folder is not the one that files were written to.
        """
        name = sums_name(self.target)
        try:
            with open(create_anew(f"{name}.part"), "wb") as file:
                file.writelines(sums)
            yield f"{name}.part"
            self._check_folder()
            os.replace(f"{name}.part", name)
        except BaseException:
            with suppress(OSError):
                os.unlink(f"{name}.part")
            raise

    def _check_folder(self) -> None:
        """Check that the folder is the one that files were written to.

        Raises:
            OptionError: it was removed or moved, so that what was written is not all there.
        """
        _check_same(self._descriptor, self.folder)


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

    def __init__(self, target: str | os.PathLike[str]) -> None:
        super().__init__(target)
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

    def check_kept(self, units: Iterable[tuple[Sequence[str], int]]) -> None:
        """Do nothing: the archive is open, and `finish` looks whether it is the one of its name."""

    def finish(self, documents: Mapping[str, bytes], sums: Iterable[bytes]) -> int:
        with self._appearing(sums) as name:
            _check_same(self._archive.descriptor, self._path)
            self._archive.close()
            flush(name)
        appear(self._path, self.target)
        self.clear()
        return sum(map(len, documents.values()))


ROOTS = ("zarr.json", ".zgroup")
"""Documents of the root of which a store has one, without which nobody takes objects for a store."""


class BucketPlace(StorePlace):
    """Objects of a store, which cannot be renamed: they have their names at once, and the document of the root is last.

    Without it nobody takes them for a store. Files of units wait on the disk of this machine until they are sent.
    """

    everywhere = True

    def __init__(self, target: str) -> None:
        self.target = self.holds = target
        self._bucket = Bucket(target)
        self._there: dict[str, int] | None = None

    def exists(self) -> bool:
        return any(self._bucket.read_all([f"{self.target}/{key}" for key in ROOTS]))

    def begun(self) -> bool:
        return self._bucket.any(self.target)

    def noted(self) -> bool:
        return self._bucket.any(self.marks)

    def journal(self) -> MarksObjects:
        return MarksObjects(self._bucket, self.marks, f"{self.target} and {self.marks}")

    def sums(self) -> tuple[Subject, Iterable[Mark]]:
        name = sums_name(self.target)
        found = self._bucket.read(name)
        if found is None:
            raise FileNotFoundError(name)
        return sums_in(found.splitlines(keepends=True))

    def write_sums(self, sums: Iterable[bytes]) -> None:
        self._bucket.write(sums_name(self.target), b"".join(sums))

    def remove_sums(self) -> None:
        self._bucket.delete([sums_name(self.target)])

    def make(self, documents: Mapping[str, bytes]) -> None:
        self._there = self._bucket.sizes(self.target)

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
        assert self._there is not None
        return sum(self._there.get(self._url(path), 0) for path in paths) == size

    def check_kept(self, units: Iterable[tuple[Sequence[str], int]]) -> None:
        self._there = self._bucket.sizes(self.target)
        super().check_kept(units)

    def finish(self, documents: Mapping[str, bytes], sums: Iterable[bytes]) -> int:
        below = [key for key in documents if "/" in key]
        for key in below:
            self._bucket.write(f"{self.target}/{key}", documents[key])
        self.write_sums(sums)
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
