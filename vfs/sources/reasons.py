"""Says in words why a server or a store of objects gave no bytes, and whether it may go better the next time."""

from __future__ import annotations

import re

from vfs.errors import printable
from vfs.sources.web_connection import AskError

_STATUS = re.compile(r"status code: (\d{3})")
_KIND = re.compile(r"kind: (\w+)")
_AGAIN = {408, 425, 429, 500, 502, 503, 504}


_URL = re.compile(r"\w+://\S+")


def is_panic(error: BaseException) -> bool:
    """Return True for what obstore raises where it meets with what it did not expect."""
    return type(error).__name__ == "PanicException"


def reason(error: BaseException) -> tuple[str, bool]:
    """Say in words what went wrong. Returns (words, whether it may go better the next time).

    obstore's texts have the status of the reply, or the kind of what broke, and then a page of details.
    """
    text = str(error)
    kind = type(error).__name__
    status = _STATUS.search(text)
    if isinstance(error, AskError):
        return (_said(error.status), error.status in _AGAIN) if error.status else (text, error.again)
    if "NoSuchBucket" in text:
        return "there is no such bucket", False
    if status is not None:
        code = int(status[1])
        return _said(code), code in _AGAIN
    if kind == "NotSupportedError":
        return "the server does not serve ranges of bytes; copy the file, or use another server", False
    if "UnexpectedRange" in text or "NoContentRange" in text:
        return "the server answers with other bytes than those asked for", False
    if "MissingContentLength" in text:
        return "the server does not say how long its answer is", False
    if "builder error" in text and "http://" in text:
        return "it is to be asked without TLS, which AWS_ALLOW_HTTP=true (GOOGLE_…, AZURE_…) allows", False
    broken = _KIND.findall(text)
    if "error following redirect" in text:
        return "the server redirects in a circle", False
    if "Parse" in text:
        return "the server does not answer in HTTP", False
    if "Timeout" in broken or "TimedOut" in text:
        return "no answer in time", True
    if "dns error" in text:
        return "there is no such server", False
    if "Connect" in broken:
        return "cannot connect to the server", True
    if "Interrupted" in broken or "Body" in text:
        return "the connection broke", True
    if kind in ("PermissionDeniedError", "UnauthenticatedError"):
        return _said(403), False
    text = _URL.sub("…", text.split("Debug source")[0])  # a URL may be signed
    return printable(" ".join(text.split()))[:200], False


def _said(code: int) -> str:
    if code in (401, 403):
        return f"the server does not allow it (status {code}); are credentials missing?"
    if code == 416:
        return "the server has no such bytes (status 416); it looks truncated"
    return f"the server answers with status {code}"
