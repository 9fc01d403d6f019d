"""Fields of headers that decide what is shown, a table for each format. `vfs.testing.deciding_fields` checks them."""

from tests.formats.deciding_fields.cameras import CAMERAS
from tests.formats.deciding_fields.microscopes import MICROSCOPES
from tests.formats.deciding_fields.planes import PLANES

DECIDED = (*CAMERAS, *MICROSCOPES, *PLANES)
"""Every format's fields. A field that only describes (a date, a comment) is none of these."""

NONE = {
    "bioformats": "what its fields say Bio-Formats decides",
    "raw": "headerless: the caller says everything",
    "rosettasciio": "what its fields say RosettaSciIO decides",
}
"""Formats whose files have no such field, and why."""
