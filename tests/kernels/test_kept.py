"""Where compiled kernels are kept when neither the package nor a home can be written to."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from vfs.kernels.compiled import sources_digest

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
    assert list(ours.glob("kernels/*/paths.path_hash*.nbi"))
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


def test_a_kernel_is_compiled_anew_if_another_file_of_kernels_changed(tmp_path: Path) -> None:
    """What it calls and takes from there is part of it, though numba looks at its own file only."""
    code = _PLAN.replace('os.environ.get("NUMBA_CACHE_DIR")', '"numba.np.arraymath" in sys.modules')
    code = code.replace("import os\n", f"import os, sys\n    os.environ['NUMBA_CACHE_DIR'] = {str(tmp_path)!r}\n", 1)
    digest = "\n    from vfs.kernels import compiled\n    compiled.sources_digest = lambda folder: 'other'"
    changed = code.replace("    from vfs.kernels.native", digest[1:] + "\n    from vfs.kernels.native", 1)
    assert changed.index("NUMBA_CACHE_DIR") < changed.index(digest[5:]), "numba reads it when it is imported"
    assert [ran(each, tmp_path).stdout for each in (code, code, changed, changed)] == ["True\n", "False\n"] * 2
    (tmp_path / "below").mkdir()
    (tmp_path / "below/a.py").write_text("A = 1\n")
    before = sources_digest.__wrapped__(tmp_path)
    (tmp_path / "below/a.py").write_text("A = 22\n")
    assert sources_digest.__wrapped__(tmp_path) != before


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
