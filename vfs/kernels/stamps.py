"""Reads times and exposures from Merlin's text headers, many headers at a time.

`vfs.formats.mib` describes the fields of these headers.
"""

from __future__ import annotations

import numpy as np

from vfs.kernels.columns import COUNT, DEST, START, STEP
from vfs.kernels.deferred import inner, kernel

NONE = np.iinfo(np.int64).min
"""Result of `time_at` where there is no time."""

_COMMA, _POINT, _ZERO = 44, 46, 48


@inner
def _number(text, a, b):
    """Return the number that the bytes `a` to `b` (half-open) of a text spell, -1 if they are not all digits."""
    value = -1
    if b <= len(text):
        for i in range(a, b):
            digit = text[i] - _ZERO
            if digit < 0 or digit > 9:
                return -1
            value = max(value, 0) * 10 + digit
    return value


@inner
def time_at(text, a):
    """Read the time at byte `a` of a text, like `2020-05-18T14:51:49.971626178`.

    Any character may stand between day and hour. Seconds have 0 to 9 digits behind the point.

    Args:
        text: uint8[n].

    Returns: nanoseconds since 1970, `NONE` if there is no such time.
    """
    if a < 0:
        return NONE
    year, month, day = _number(text, a, a + 4), _number(text, a + 5, a + 7), _number(text, a + 8, a + 10)
    hour, minute, second = _number(text, a + 11, a + 13), _number(text, a + 14, a + 16), _number(text, a + 17, a + 19)
    if (
        year < 1970
        or year > 2200
        or month < 1
        or month > 12
        or day < 1
        or day > 31
        or hour < 0
        or hour > 23
        or minute < 0
        or minute > 59
    ):
        return NONE
    if second < 0 or second > 60:
        return NONE
    fraction, unit = 0, 1_000_000_000
    i = a + 20
    if i <= len(text) and text[i - 1] == _POINT:
        while i < len(text) and unit > 1:
            digit = text[i] - _ZERO
            if digit < 0 or digit > 9:
                break
            unit //= 10
            fraction += digit * unit
            i += 1
    y = year - 1 if month <= 2 else year  # counts years from March to February, so that a leap day is the last day
    days = y * 365 + y // 4 - y // 100 + y // 400 + ((month + 9) % 12 * 153 + 2) // 5 + day - 1 - 719_468
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000 + fraction


@inner
def decimal_at(text, a):
    """Read the number at byte `a` of a text, like `0.000555`, `5.55E-4` or `555000`.

    Returns: NaN if there is none, or one that no measurement gives (`1e999`).
    """
    n = len(text)
    i = a
    while 0 <= i < n and text[i] == 32:
        i += 1
    value, digits, scale, point = 0.0, 0, 0, False
    while 0 <= i < n:
        digit = text[i] - _ZERO
        if 0 <= digit <= 9:
            value = value * 10 + digit
            digits += 1
            scale -= point
        elif text[i] == _POINT and not point:
            point = True
        else:
            break
        i += 1
    if digits == 0 or digits > 30:
        return np.nan
    if i + 1 < n and (text[i] == 69 or text[i] == 101):
        sign = -1 if text[i + 1] == 45 else 1
        i += 2 if text[i + 1] == 45 or text[i + 1] == 43 else 1
        power = 0
        while i < n and 48 <= text[i] <= 57 and power < 1000:
            power = power * 10 + text[i] - _ZERO
            i += 1
        scale += sign * power
    if scale < -300 or scale > 300:
        return np.nan
    return value / 10.0**-scale if scale < 0 else value * 10.0**scale


def _fields_of(header):
    """Do what `_fields` does, for bytes."""
    text = header.partition(b"\0")[0]
    newer = text.find(b",MQ1A,")
    if 0 <= newer < len(header) - 6:
        after = header.find(b",", newer + 6)
        return newer + 6, after + 1 if after >= 0 else -1, 1e9
    older = text.split(b",", 10)
    time = sum(map(len, older[:9])) + 9 if len(older) > 9 else -1
    return time, time + len(older[9]) + 1 if len(older) > 10 else -1, 1.0


@inner(python=_fields_of)
def _fields(header):
    """Find the time and the exposure in a header.

    Returns: (byte of the time, byte of the exposure, units of the exposure in a second). A byte is
        -1 if the field is missing.
    """
    comma = 0
    time, exposure = -1, -1
    for i in range(len(header)):
        if header[i] == 0:
            break
        if header[i] == _COMMA:
            comma += 1
            if comma == 9:
                time = i + 1
            elif comma == 10:
                exposure = i + 1
            if (
                i + 6 < len(header)
                and header[i + 1] == 77
                and header[i + 2] == 81
                and header[i + 3] == 49
                and header[i + 4] == 65
                and header[i + 5] == _COMMA
            ):
                time = i + 6  # newer software: to the nanosecond, in UTC
                for j in range(time, len(header)):
                    if header[j] == _COMMA:
                        return time, j + 1, 1e9
                return time, -1, 1e9
    return time, exposure, 1.0


@inner(python=lambda data, a, width: data[a : a + width].tobytes())
def _header(data, a, width):
    """Return the bytes of a header."""
    return data[a : a + width]


def _headers(ranges, *_):
    """Return the number of headers that a kernel reads."""
    return int(ranges[:, COUNT].sum())


@kernel(rows=_headers)
def place_times(ranges, data, base, width, out):
    """Read the time stamps of headers.

    Args:
        ranges: int64[n, 11], with one element for each header.
        data: uint8[m], a file's bytes from `base` on.
        width: bytes of a header.
        out: int64, nanoseconds since 1970.

    Returns: -1 if all headers have a time, else the byte of the file at which the first header
        without one begins.
    """
    for r in range(ranges.shape[0]):
        for i in range(ranges[r, COUNT]):
            a = ranges[r, START] - base + i * width
            header = _header(data, a, width)
            value = time_at(header, _fields(header)[0])
            if value == NONE:
                return a + base
            out[ranges[r, DEST] + i * ranges[r, STEP]] = value
    return -1


@kernel(rows=_headers)
def place_exposures(ranges, data, base, width, out):
    """Do what `place_times` does, for exposures: float64, seconds."""
    for r in range(ranges.shape[0]):
        for i in range(ranges[r, COUNT]):
            a = ranges[r, START] - base + i * width
            header = _header(data, a, width)
            _, at, unit = _fields(header)
            value = decimal_at(header, at) if at >= 0 else np.nan
            if np.isnan(value):
                return a + base
            out[ranges[r, DEST] + i * ranges[r, STEP]] = value / unit
    return -1
