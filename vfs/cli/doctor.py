"""Says what of vfs works on this machine, what is missing, and what to type for it.

It looks at files, limits and the metadata of packages. It imports none of them, asks no network, and writes nothing.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from ctypes.util import find_library
from dataclasses import asdict, dataclass
from glob import iglob
from importlib import metadata
from pathlib import Path
from typing import Any

import vfs
from vfs.cli.tables import table
from vfs.errors import installing, size

_CAP_SYS_ADMIN = 21  # number of the capability in linux/capability.h
_STORES = "AWS_", "AZURE_", "GOOGLE_"
"""How the variables begin that say where and who we are to remote stores."""
_FEW_FILES = 1024  # descriptors
_NOT_FOR_USERS = {"testing"}
"""Extras that only those need who write a format."""


@dataclass(frozen=True)
class Finding:
    """What is known of one thing.

    Attributes:
        name: one word for the thing.
        found: what is here, in words.
        missing: what is not here and what it is for, each with what to type for it.
    """

    name: str
    found: str
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True)
class Missing:
    """A thing that is not here.

    Attributes:
        what: the thing, and what does not work without it.
        type: what to type, or to set.
    """

    what: str
    type: str


def findings() -> list[Finding]:
    """Look at this machine."""
    return [
        _itself(),
        Finding("python", f"{platform.python_version()}, {sys.executable}; {platform.system()} {platform.release()}"),
        *_libraries(),
        _mount(),
        _kernels(),
        _runtime(),
        _limits(),
        _browser(),
        _jupyter(),
        _credentials(),
    ]


def as_json(found: Sequence[Finding]) -> dict[str, Any]:
    """Return findings as JSON: name -> {found, missing}."""
    return {one.name: {key: value for key, value in asdict(one).items() if key != "name"} for one in found}


def as_text(found: Sequence[Finding], columns: int) -> list[str]:
    """Return findings as lines: what is here, then what is missing.

    Args:
        columns: characters of a line.
    """
    rows = table([(one.name, one.found) for one in found], columns)
    lines = [line for row in rows for line in row]
    missing = [(one.what, one.type) for finding in found for one in finding.missing]
    if not missing:
        return [*lines, "nothing is missing"]
    return [*lines, "missing:", *(f"  {what}: {typed}" for what, typed in missing)]


def _itself() -> Finding:
    """Look at vfs, which may be on Python's path only: then nobody knows its formats."""
    version, where = _version("vfs"), os.path.dirname(vfs.__file__)
    missing = () if version else (Missing("its formats, and what it needs", "pip install -e the checkout of it"),)
    return Finding("vfs", f"{version or 'not installed'}, in {where}", missing)


def _libraries() -> Iterator[Finding]:
    """Look at the libraries that the metadata of vfs names: those it always needs, then those of the extras."""
    extras: dict[str, dict[str, str | None]] = {}
    for requirement in (metadata.requires("vfs") if _version("vfs") else None) or ():
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        if name != "vfs":
            extras.setdefault(extra[1] if extra else "", {})[name] = _version(name)
    always = extras.pop("", {})
    gone = tuple(Missing(f"{name}, which vfs needs", installing(name)) for name, v in always.items() if v is None)
    yield Finding("libraries", _versions(always), gone)
    chosen = {name: libraries for name, libraries in extras.items() if name not in _NOT_FOR_USERS}
    whole = {name: libraries for name, libraries in chosen.items() if None not in libraries.values()}
    absent = [
        (name, ", ".join(library for library, version in libraries.items() if version is None))
        for name, libraries in sorted(chosen.items(), key=lambda item: item[0] == "all")
        if name not in whole
    ]
    found = "; ".join(f"{name} ({_versions(libraries)})" for name, libraries in whole.items())
    yield Finding(
        "extras",
        found or "none",
        tuple(Missing(f"{libraries} of the extra {name}", installing(f"vfs[{name}]")) for name, libraries in absent),
    )


def _version(name: str) -> str | None:
    """Return the version of a package that is installed, else None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _versions(libraries: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {version}" for name, version in libraries.items() if version is not None)


def _mount() -> Finding:
    """Look at what `vfs mount` needs: the device, libfuse, and the right to mount."""
    found, missing = [], []
    if not os.path.exists("/dev/fuse"):
        missing.append(Missing("/dev/fuse, for vfs mount", "modprobe fuse; in a container: --device /dev/fuse"))
    elif os.access("/dev/fuse", os.R_OK | os.W_OK):
        found.append("/dev/fuse")
    else:
        missing.append(Missing("the right to open /dev/fuse, for vfs mount", "chmod 666 /dev/fuse, as root"))
    library = os.environ.get("FUSE_LIBRARY_PATH") or find_library("fuse3") or find_library("fuse")
    if library:
        found.append(library)
    else:
        missing.append(Missing("libfuse, for vfs mount", "apt install fuse3, or dnf install fuse3"))
    if os.geteuid() == 0:
        if _may_administer():
            found.append("root, who may mount")
        else:
            missing.append(Missing("the right to mount, for vfs mount", "in a container: --cap-add SYS_ADMIN"))
    elif helper := shutil.which("fusermount3") or shutil.which("fusermount"):
        found.append(helper)
        if not os.path.exists("/etc/mtab"):
            what = "/etc/mtab, by which fusermount ends mounts, for vfs mount"
            missing.append(Missing(what, "ln -s /proc/self/mounts /etc/mtab, as root"))
    else:
        missing.append(Missing("fusermount3, for vfs mount", "apt install fuse3, or dnf install fuse3"))
    return Finding("mount", ", ".join(found) or "nothing", tuple(missing))


def _may_administer() -> bool:
    """Return True if this process has the capability to mount."""
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)$", _text("/proc/self/status"), re.MULTILINE)
    return bool(capabilities and int(capabilities[1], 16) >> _CAP_SYS_ADMIN & 1)


def _kernels() -> Finding:
    """Look for the folder in which numba keeps what it compiled, as numba and `vfs.kernels.compiled` choose it."""
    package = os.path.join(os.path.dirname(vfs.__file__), "kernels")
    wide = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "numba")
    told = os.environ.get("NUMBA_CACHE_DIR")
    places = [told] if told else [package, wide, os.path.join(tempfile.gettempdir(), f"vfs-{os.geteuid()}", "kernels")]
    place = next((one for one in places if _writable(one)), None)
    if place is None:
        what = f"a folder for compiled kernels ({', '.join(places)} cannot be written to)"
        return Finding("kernels", "not kept", (Missing(what, "export NUMBA_CACHE_DIR=, and a folder of yours"),))
    ours = "" if place == package else "kernels_*/"  # numba names folders for those of the sources
    compiled = sum(1 for _ in iglob(f"{place}/{ours}**/*.nbc", recursive=True, include_hidden=True))
    return Finding("kernels", f"{compiled} compiled in {place}" if compiled else f"none compiled yet, in {place}")


def _runtime() -> Finding:
    """Look at the folder in which mounts and servers are written down."""
    told = os.environ.get("XDG_RUNTIME_DIR")
    place = told if told and _writable(told) else tempfile.gettempdir()
    if _writable(place):
        return Finding("runtime", place)
    return Finding("runtime", "none", (Missing("a folder for mounts and servers", "export TMPDIR=, and a folder"),))


def _writable(folder: str) -> bool:
    """Return True if a folder can be written to, or can be made."""
    there = Path(folder)
    while not there.exists() and there != there.parent:
        there = there.parent
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _limits() -> Finding:
    """Look at cores, memory and descriptors, and at what a cgroup leaves of the memory."""
    import resource

    cores = len(os.sched_getaffinity(0))
    memory = re.search(r"^MemTotal:\s*(\d+) kB$", _text("/proc/meminfo"), re.MULTILINE)
    group = _text("/sys/fs/cgroup/memory.max").strip() or _text("/sys/fs/cgroup/memory/memory.limit_in_bytes").strip()
    total = int(memory[1]) << 10 if memory else 0
    said = [f"{cores} core{'s' * (cores > 1)}", f"{size(total)} of memory"]
    if group.isdigit() and int(group) < total:
        said.append(f"of which a cgroup leaves {size(int(group))}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (one if one != resource.RLIM_INFINITY else sys.maxsize for one in (soft, hard))
    said.append("any number of open files" if soft == sys.maxsize else f"{soft} open files")
    few = Missing(f"more than {soft} open files, for sets of many files", f"ulimit -n {min(hard, 1 << 16)}")
    return Finding("limits", ", ".join(said), (few,) if soft < min(hard, _FEW_FILES) else ())


def _browser() -> Finding:
    """Look for a browser that can show the page."""
    import webbrowser

    try:
        found = webbrowser.get()
    except webbrowser.Error:
        none = "apt install xdg-utils, or open the URL of vfs serve at another machine"
        return Finding("browser", "none", (Missing("a browser, for vfs FILE and --open", none),))
    return Finding("browser", str(getattr(found, "name", type(found).__name__)))


def _jupyter() -> Finding:
    """Look at JupyterLab, and at what leads from a hub to a server of vfs."""
    lab, proxy = _version("jupyterlab"), _version("jupyter-server-proxy")
    found = _versions({"jupyterlab": lab, "jupyter-server-proxy": proxy}) or "not in this environment"
    if proxy or not (lab or "JUPYTERHUB_SERVICE_PREFIX" in os.environ):
        return Finding("jupyter", found)
    what = "jupyter-server-proxy, which leads from a JupyterLab elsewhere to vfs"
    return Finding("jupyter", found, (Missing(what, installing("jupyter-server-proxy")),))


def _credentials() -> Finding:
    """Look which variables of remote stores, with credentials among them, are set. Their values are not read."""
    names = sorted(name for name in os.environ if name.startswith(_STORES) or name == "NETRC")
    netrc = "; there is a ~/.netrc" * os.path.exists(os.path.expanduser("~/.netrc"))
    said = f"set, values not shown: {', '.join(names)}" if names else "no variable of a store is set"
    return Finding("credentials", said + netrc)


def _text(path: str) -> str:
    """Return the text of a file; "" if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
