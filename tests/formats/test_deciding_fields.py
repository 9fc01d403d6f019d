"""A field that decides meaning is heeded or named in an error, in every format."""

from pathlib import Path

import pytest

from tests.formats.deciding_fields import DECIDED
from vfs.testing.deciding_fields import DecidedSet, DecidingField, check_field


@pytest.mark.parametrize(
    ("decided", "field"),
    [
        pytest.param(decided, field, id=f"{decided.format}{decided.name and f' {decided.name}'}: {field.name}")
        for decided in DECIDED
        for field in decided.fields
    ],
)
def test_a_field_that_decides_meaning_is_heeded(decided: DecidedSet, field: DecidingField, tmp_path: Path) -> None:
    check_field(decided, field, tmp_path)
