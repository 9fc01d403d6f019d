"""neuroglancer (JavaScript) in headless Chromium, in a page of another origin: what its pixels show.
Packages are found from the working directory.
"""

from __future__ import annotations

from typing import Any

from compare import NotDrawnError, main
from javascript import Talk, version

WORKERS = [f"neuroglancer/unstable/{name}.bundle.js" for name in ("chunk_worker", "async_computation")]


def read(face: str, array: str) -> Any:
    talk = Talk("neuroglancer.mjs", "chromium", *WORKERS)
    get, opened = talk.read(face, array)

    def drawn(region: tuple[slice, ...]) -> Any:
        try:
            return get(region)
        except OSError as error:
            if "was not drawn" in str(error):
                raise NotDrawnError from error
            raise

    return drawn, {"version": f"{version('neuroglancer')}, {talk.ask('about')}", "dims": opened["dims"]}


if __name__ == "__main__":
    main(read)
