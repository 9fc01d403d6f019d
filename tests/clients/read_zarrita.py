"""zarrita (JavaScript) under Node, or with HOW "chromium" in a page of another origin. Packages are
found from the working directory.
"""

from __future__ import annotations

import os
from typing import Any

from compare import how, is_url, main
from javascript import Talk, version


def read(face: str, array: str) -> Any:
    talk = Talk("zarrita.mjs", how() or "node")
    get, opened = talk.read(face if is_url(face) else os.path.abspath(face), array)
    return get, {"version": f"{version('zarrita')}, {talk.ask('about')}", "dims": opened["dims"]}


if __name__ == "__main__":
    main(read)
