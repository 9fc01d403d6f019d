"""Tells how sets that are still being written go on: `GET api/events`, a stream of server-sent events.

An event is `frames`, `changed` (documents say another shape, or it is another acquisition) or `complete`; its data are
{"set": path of the main face, "frames": n, "of": m or null, "complete": false} in JSON. At first there is one for
each set that is still being written. The stream ends when none is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from vfs.contents.contents import Contents
from vfs.errors import VfsError
from vfs.http.answers import Answer
from vfs.http.requests import Request
from vfs.live.growing import Progress

PAUSE = 0.25  # seconds between two looks
QUIET = 15.0  # seconds after which a line is sent though nothing happened, so that proxies keep the connection


class Events:
    """Sends streams of events, in the thread of the event loop.

    Args:
        contents: what is served.
        threads: runs work in threads.
    """

    def __init__(self, contents: Contents, threads: Any) -> None:
        self._contents, self._threads = contents, threads

    async def send(self, _: str, request: Request, answer: Answer) -> None:
        """Answer with a stream of events."""
        about = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await answer.begin(200, about)
        before: Mapping[str, Progress] = {}
        quiet = 0.0
        while True:
            now = await self._threads(("events",), self._progress, request.receive)
            if request.rights is not None:
                now = {path: progress for path, progress in now.items() if request.rights.sees(path)}
            text = "".join(_changes(before, now))
            if text or quiet >= QUIET:
                await answer.send(memoryview((text or ": nothing new\n\n").encode()), last=False)
                quiet = 0.0
            if not now:
                break
            before = now
            await asyncio.sleep(PAUSE)
            quiet += PAUSE
        await answer.send(memoryview(b"event: end\ndata: {}\n\n"), last=True)

    def _progress(self) -> Mapping[str, Progress]:
        try:
            return self._contents.progress()
        except VfsError:  # who reads learns what is wrong
            return {}


def _changes(before: Mapping[str, Progress], now: Mapping[str, Progress]) -> list[str]:
    """Return the events that say what happened between two looks."""
    found = []
    for name, progress in now.items():
        was = before.get(name)
        if was == progress:
            continue
        anew = was is not None and (progress.frames < was.frames or was.of != progress.of)
        changed = was is not None and (anew or (progress.grows and was.frames != progress.frames))
        kind = "complete" if progress.complete else "changed" if changed else "frames"
        found.append(_event(kind, {"set": name, **progress.said()}))
    for name, was in before.items():
        if name not in now and not was.complete:
            frames = was.frames if was.of is None else was.of
            found.append(_event("complete", {"set": name, **was.said(), "frames": frames, "complete": True}))
    return found


def _event(kind: str, data: Mapping[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"
