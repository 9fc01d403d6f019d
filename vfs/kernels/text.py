"""Reads tables of whole numbers that are written as text (.csv)."""

from __future__ import annotations

import numpy as np

from vfs.kernels.compiled import kernel

OK, BAD_CELL, TOO_FEW, TOO_MANY, TOO_LARGE = range(5)


@kernel
def parse_table(data, rows, columns):
    """Read lines of comma-separated whole numbers.

    Args:
        data: uint8[m], the lines, each ended by a line feed. The last line may lack it, and a
            carriage return may stand before it.
        rows: number of lines.
        columns: number of cells in each line.

    Returns: (int64[rows, columns], OK, 0, 0), or (an incomplete table, the kind of error, its row,
        its column).
    """
    table = np.zeros((rows, columns), np.int64)
    at = 0
    end = data.shape[0]
    for row in range(rows):
        for column in range(columns):
            while at < end and data[at] == 32:
                at += 1
            negative = at < end and data[at] == 45
            if negative:
                at += 1
            digits = 0
            value = 0
            while at < end and 48 <= data[at] <= 57:
                digit = np.int64(data[at]) - 48
                if value > (9223372036854775807 - digit) // 10:
                    return table, TOO_LARGE, row, column
                value = value * 10 + digit
                digits += 1
                at += 1
            while at < end and data[at] == 32:
                at += 1
            last = at == end or data[at] == 10 or (data[at] == 13 and (at + 1 == end or data[at + 1] == 10))
            if digits == 0 or not (last or data[at] == 44):
                return table, BAD_CELL, row, column
            table[row, column] = -value if negative else value
            if last != (column == columns - 1):
                return table, TOO_FEW if last else TOO_MANY, row, column
            at += 1
        if at - 1 < end and data[at - 1] == 13:
            at += 1
    return table, OK, 0, 0
