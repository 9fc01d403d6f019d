"""Where compiled kernels are kept when neither the package nor a home can be written to."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vfs.kernels import kernel_cache
from vfs.kernels.made_of import digest

_NOWHERE = """
    from numba.core import caching
    # as for a user who may write to no such place
    for name in [name for name in vars(caching) if "Locator" in name and name[0] != "_" and "UserProvided" not in name]:
        getattr(caching, name).from_function = classmethod(lambda *_: None)
"""
_NO_HOME = """
    import os, pwd
    def unknown(_):
        raise KeyError("who?")
    pwd.getpwuid = unknown
    assert os.environ.pop("HOME")
"""
_PLAN = """
    import os
    from vfs.kernels.native.fuse import paths
    import numpy as np
    text = np.frombuffer(b"path", np.uint8)
    paths.path_hash(text.ctypes.data, text.size)
    print(os.environ.get("NUMBA_CACHE_DIR"))
"""


def ran(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    places = os.pathsep.join(os.path.abspath(name) for name in sys.path if name)
    told = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder), "PYTHONPATH": places}
    told.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-P", "-c", textwrap.dedent(code)]
    return subprocess.run(command, cwd=folder, env=told, capture_output=True, text=True, timeout=250)


@pytest.mark.parametrize("why", [_NOWHERE, _NO_HOME], ids=["nowhere", "home"])
def test_without_a_place_of_its_own_numba_gets_one_that_is_ours_alone(tmp_path: Path, why: str) -> None:
    ours = tmp_path / f"vfs-{os.geteuid()}"
    done = ran(why + _PLAN, tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{ours}/kernels\n"), done.stderr
    assert ours.stat().st_mode & 0o777 == 0o700
    assert list(ours.glob("kernels/*/paths.path_hash*.nbc"))
    assert [path.name for path in tmp_path.iterdir()] == [ours.name]  # numba would have made a folder "~" here
    done = ran(why + _PLAN, tmp_path)  # with the folder there
    assert (done.returncode, done.stdout) == (0, f"{ours}/kernels\n"), done.stderr


def test_a_folder_that_others_can_write_to_is_not_run_from(tmp_path: Path) -> None:
    ours = tmp_path / f"vfs-{os.geteuid()}"
    ours.mkdir()
    ours.chmod(0o777)
    done = ran(_NOWHERE + _PLAN, tmp_path)
    says = (
        f"vfs.errors.DependencyError: no folder for compiled kernels: {ours}: others may use it (mode 0777); set"
        " NUMBA_CACHE_DIR to a folder of yours"
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, says)


def test_where_the_package_can_be_written_to_nothing_is_told(tmp_path: Path) -> None:
    import vfs

    if not os.access(os.path.join(os.path.dirname(vfs.__file__), "kernels"), os.W_OK):
        pytest.skip("the package is read-only here")
    assert ran(_PLAN, tmp_path).stdout == "None\n"


def test_a_kept_kernel_is_loaded_without_the_compiler(tmp_path: Path) -> None:
    """Numba would import these, and scipy.linalg with them, before it loads anything."""
    code = _PLAN.replace('os.environ.get("NUMBA_CACHE_DIR")', '"numba.np.arraymath" in sys.modules')
    code = code.replace("import os\n", f"import os, sys\n    os.environ['NUMBA_CACHE_DIR'] = {str(tmp_path)!r}\n", 1)
    assert [ran(code, tmp_path).stdout for _ in range(2)] == ["True\n", "False\n"]


_MANY = """
    import numpy as np
    from enum import IntEnum
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic
    from vfs.kernels.compiled import inner, kernel
    from vfs.kernels.made_of import overloaded

    FACTOR, FACTORS = 3, np.arange(4)

    class Column(IntEnum):
        FIRST = 1

    @intrinsic
    def more(context, x):
        def generate(context, builder, signature, args):
            return builder.add(args[0], ir.Constant(args[0].type, 8))
        return types.int64(types.int64), generate

    def anyhow(x):
        raise NotImplementedError

    @overloaded(anyhow)
    def _anyhow(x):
        def instead(x):
            return x + 7
        return instead

    def made(by):
        @inner
        def called(x):
            return x + by
        return called

    called = made(5)

    @kernel
    def total(x, by=1):
        return called(more(anyhow(x * FACTOR))) + FACTORS[Column.FIRST]

    @kernel(fastmath=True)
    def hasty(x):
        return x
"""


@pytest.mark.parametrize(
    ("of", "instead"),
    [
        ("FACTOR, FACTORS = 3", "FACTOR, FACTORS = 4"),
        ("np.arange(4)", "np.arange(1, 5)"),
        ("FIRST = 1", "FIRST = 2"),
        ("args[0].type, 8", "args[0].type, 9"),
        ("x + 7", "x + 8"),
        ("x + by", "x - by"),
        ("made(5)", "made(6)"),
        ("by=1", "by=2"),
        ("x * FACTOR", "x + FACTOR"),
        ("        @inner", "        @inner.__class__ and kernel(error_model='numpy')"),
    ],
)
def test_a_digest_tells_all_that_is_compiled(of: str, instead: str) -> None:
    def told(text: str, name: str = "total") -> bytes:
        found: dict[str, Any] = {"__name__": "made"}
        exec(compile(textwrap.dedent(text), __file__, "exec"), found)
        return digest(found[name].py_func, found[name].targetoptions)

    assert of in _MANY
    assert told(_MANY) == told("\n\n" + _MANY.replace("return called\n", "return called  # moved\n\n"))
    assert told(_MANY) != told(_MANY.replace(of, instead))
    assert told(_MANY, "hasty") == told(_MANY.replace(of, instead), "hasty")
    assert told(_MANY, "hasty") != told(_MANY.replace("fastmath=True", ""), "hasty")


def test_what_nobody_can_tell_apart_is_no_part_of_a_kernel() -> None:
    def kernel() -> object:
        return thing

    thing = object()
    with pytest.raises(TypeError, match="expected a function or a constant"):
        digest(kernel, {})


_TOTAL = """
    import sys; sys.path.insert(0, sys.argv[1])
    import made
    print("begun", flush=True)
    sys.stdin.readline()
    print(made.total(5), sum(made.total.stats.cache_hits.values()))
"""
_PARTS = """
    import parts
    from vfs.kernels.compiled import inner, kernel
    half = inner(parts.half)

    @kernel
    def total(x):
        return half(x) * parts.WORD
"""


@pytest.fixture
def begun(tmp_path: Path) -> Callable[[], subprocess.Popen[str]]:
    """Begins processes that call a kernel once they are told to, and print what it made, and hits of the cache."""
    (tmp_path / "made.py").write_text(textwrap.dedent(_PARTS))
    (tmp_path / "parts.py").write_text("WORD = 2\ndef half(x):\n    return x - 1\n")
    os.utime(tmp_path / "parts.py", (1, 1))
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels"), "PYTHONDONTWRITEBYTECODE": "1"}

    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", textwrap.dedent(_TOTAL), str(tmp_path)]
        started = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert started.stdout is not None
        assert started.stdout.readline() == "begun\n"
        return started

    return start


def printed(process: subprocess.Popen[str]) -> str:
    return process.communicate("\n", timeout=250)[0]


@pytest.mark.parametrize("times", [pytest.param("newer", marks=pytest.mark.thorough), "equal"])
def test_what_is_compiled_after_an_update_is_no_kernel_of_the_new_code(
    tmp_path: Path, begun: Callable[[], subprocess.Popen[str]], times: str
) -> None:
    """It has the modules of before; and an installer may give the new files the times of the old ones."""
    old = begun()
    (tmp_path / "parts.py").write_text("WORD = 3\ndef half(x):\n    return x - 2\n")
    if times == "equal":
        os.utime(tmp_path / "parts.py", (1, 1))
    assert printed(old) == "8 0\n"
    assert [printed(begun()) for _ in range(2)] == ["9 0\n", "9 1\n"]


def test_a_damaged_kernel_is_compiled_anew(tmp_path: Path, begun: Callable[[], subprocess.Popen[str]]) -> None:
    assert printed(begun()) == "8 0\n"
    (path,) = tmp_path.glob("kernels/*/*.nbc")
    whole = path.read_bytes()
    for damaged in (whole[:-1], b"", whole[:400] + bytes([whole[400] ^ 1]) + whole[401:]):
        path.write_bytes(damaged)
        assert printed(begun()) == "8 0\n"
        assert len(path.read_bytes()) == len(whole)
    assert printed(begun()) == "8 1\n"


def test_kernels_that_were_not_used_for_longest_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "ROOM", 250)
    for k, name in enumerate(["new.nbc", "b.nbc", "other.pyc", "a.nbi", "a.lock", "a.nbc.1.part"]):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (100 - k, 100 - k))
    kernel_cache.make_room(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.nbc", "new.nbc", "other.pyc"]


def test_a_callback_is_kept_too(tmp_path: Path) -> None:
    code = f"""
    import os, sys
    os.environ['NUMBA_CACHE_DIR'] = {str(tmp_path)!r}
    from vfs.kernels import steps
    steps.unpacking(4)
    print("numba.np.arraymath" in sys.modules)
    """
    assert [ran(code, tmp_path).stdout for _ in range(2)] == ["True\n", "False\n"]


_MADE = """
    import sys
    from vfs.kernels.compiled import kernel

    @kernel
    def total(a):
        made = 0
        for x in a:
            made += x
        return made
"""


def test_of_many_processes_one_compiles(tmp_path: Path) -> None:
    """The others wait and load it, also where one was killed in the middle."""
    (tmp_path / "made.py").write_text(textwrap.dedent(_MADE))
    code = """
        import sys; sys.path.insert(0, sys.argv[1])
        import made, numpy as np
        if len(sys.argv) > 2:
            import os
            made.total._compiler.compile = lambda *_: os._exit(3)
        assert made.total(np.arange(4)) == 6
        assert made.total(np.arange(4.0)) == 6
        print(sum(made.total.stats.cache_misses.values()))
    """
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    assert subprocess.run([*command, "killed"], env=env, timeout=250).returncode == 3
    started = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE) for _ in range(4)]
    answers = [process.communicate(timeout=250)[0] for process in started]
    assert [process.returncode for process in started] == [0] * 4
    assert sum(map(int, answers)) == 2
    assert len(list(tmp_path.glob("kernels/*/*.nbc"))) == 2
