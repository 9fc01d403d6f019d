"""The exception tree: each error is ours and what a caller expects, prints as one line, and survives pickling."""

from __future__ import annotations

import copy
import errno
import inspect
import pickle

import pytest

import vfs
from vfs import errors

ALL = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, errors.VfsError)]

BUILT_IN = {
    errors.FormatError: ValueError,
    errors.UnknownFormatError: ValueError,
    errors.OptionError: ValueError,
    errors.RegionError: IndexError,
    errors.UnknownArrayError: KeyError,
    errors.DependencyError: ImportError,
    errors.SourceError: OSError,
    errors.MissingSourceError: FileNotFoundError,
    errors.OutsideError: PermissionError,
    errors.TruncatedSourceError: OSError,
    errors.SourceChangedError: OSError,
    errors.NotYetError: OSError,
    errors.NoChunkError: OSError,
    errors.DecodeError: OSError,
    errors.VerifyError: ValueError,
    errors.NotReferenceableError: ValueError,
    errors.ExecutorError: RuntimeError,
    errors.ServeError: OSError,
    errors.MountError: OSError,
}


def test_every_error_is_in_the_tree_and_public() -> None:
    assert set(ALL) == {errors.VfsError, *BUILT_IN}
    for cls in ALL:
        assert getattr(vfs, cls.__name__) is cls
        assert cls.__name__ in vfs.__all__
        assert cls.__name__ in (errors.__doc__ or "")
        assert cls.__doc__


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_what_an_error_is(cls: type[errors.VfsError]) -> None:
    error = cls("scan.mib: something, with 'quotes'")
    assert isinstance(error, BUILT_IN.get(cls, Exception))
    assert str(error) == "scan.mib: something, with 'quotes'"
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is cls
        assert str(again) == str(error)
        assert getattr(again, "errno", None) == getattr(error, "errno", None)


def test_errnos() -> None:
    assert errors.SourceError("x").errno == errno.EIO
    assert errors.TruncatedSourceError("x").errno == errno.EIO
    assert errors.MissingSourceError("x").errno == errno.ENOENT
    assert errors.SourceError("x", errno.EACCES).errno == errno.EACCES
    assert pickle.loads(pickle.dumps(errors.DecodeError("x", errno.ENOSPC))).errno == errno.ENOSPC


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: cls.__name__)
def test_what_a_header_or_a_name_holds_stays_on_one_line(cls: type[errors.VfsError]) -> None:
    error = cls("a\nb\x1b[31m \udcff é: chips 2x\r")
    for text in (str(error), str(pickle.loads(pickle.dumps(error)))):
        assert text == "a\\nb\\x1b[31m \\udcff é: chips 2x\\r"
