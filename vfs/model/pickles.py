"""Pickles that are the same in every process, and digests of them."""

from __future__ import annotations

import io
import pickle
from hashlib import blake2b
from typing import Any


def packed(value: Any) -> bytes:
    """Pickle a value without references to what came before: equal values give the same bytes.

    With them, the bytes depend on which equal texts are one object, and that changes on the way to another process.
    """
    file = io.BytesIO()
    pickler = pickle.Pickler(file)
    pickler.fast = True
    pickler.dump(value)
    return file.getvalue()


def digest(value: Any) -> bytes:
    """Digest a value that can be pickled. Equal values have the same digest in every process."""
    return blake2b(packed(value), digest_size=16).digest()
