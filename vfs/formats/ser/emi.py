"""Reads the XML of an .emi file: what it says of the microscope, and whether its .ser files are of that acquisition."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from vfs.errors import FormatError
from vfs.formats.headers import left_out, parse_xml, read_at, read_side_file
from vfs.formats.series import LONGEST_PAUSE, of_another_run
from vfs.model.layout import FrameLayout
from vfs.model.sources import Sources
from vfs.model.stored import Absence, StoredArray

_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_DATE = re.compile(r"[A-Z][a-z]{2} +([A-Z][a-z]{2}) +(\d{1,2}) +(\d{2}:\d{2}:\d{2}) +(\d{4})")


def emi_metadata(sources: Sources, path: str) -> tuple[dict[str, Any], tuple[Absence, ...]]:
    """Return the entries about the microscope in the XML of an .emi file, and what of it cannot be understood."""
    found: dict[str, Any] = {}
    absent: tuple[Absence, ...] = ()
    try:
        text = read_side_file(sources, path)
    except FormatError as error:
        return {}, (left_out(error),)
    for n, part in enumerate(re.findall(rb"<ObjectInfo>.*?</ObjectInfo>", text, re.S)):
        try:
            root = parse_xml(part, path)
        except FormatError as error:
            absent = (left_out(error),)
            continue
        entries = {}
        for item in root.iter("Data"):
            label, value, unit = (item.findtext(tag, "").strip() for tag in ("Label", "Value", "Unit"))
            entries[label] = f"{value} {unit}".strip()
        entries.update(
            {
                item.tag: item.text
                for item in root.iter()
                if len(item) == 0 and item.text and item.tag not in ("Label", "Value", "Unit", "Uuid")
            }
        )
        found[f"object_{n + 1}"] = entries
    return found, absent


def ser_of_another_run(sources: Sources, arrays: Sequence[StoredArray], emi: dict[str, Any]) -> tuple[Absence, ...]:
    """Report a .ser file whose first time stamp is days away from all times in the .emi file.

    Those of the .emi are local time, without a zone.
    """
    times = [time for entries in emi.values() if (time := _seconds(entries.get("AcquireDate", ""))) is not None]
    strange = []
    for one in arrays:
        if times and one.path.endswith("timestamp") and isinstance(one.layout, FrameLayout):
            path, at = one.files.paths[0], int(one.layout.locate(np.zeros(1, np.int64))[0, 1])
            stamp = int.from_bytes(read_at(sources, path, 4, at), "little")
            if stamp and min(abs(stamp - time) for time in times) > LONGEST_PAUSE:  # 0: no clock was set
                near = min(times, key=lambda time: abs(stamp - time))
                strange.append(
                    f"{path}: was recorded at {np.datetime64(stamp, 's')}, its .emi says {np.datetime64(near, 's')}"
                )
    return of_another_run(strange)


def _seconds(date: str) -> int | None:
    """Return the seconds since 1970 of a date such as Mon Feb 22 19:33:05 2016; None if it is none."""
    hit = _DATE.fullmatch(date.strip())
    if hit is None:
        return None
    month, day, time, year = hit.groups()
    try:
        return int(
            np.datetime64(f"{year}-{_MONTHS.index(month) // 3 + 1:02}-{int(day):02}T{time}", "s").astype(np.int64)
        )
    except ValueError:
        return None
