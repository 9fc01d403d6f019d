"""scripts/run and scripts/test as they behave around an environment that takes no time: Python, pip
and apt are stand-ins.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
TOOLS = (
    "sh",
    "env",
    "cat",
    "chmod",
    "cksum",
    "dirname",
    "find",
    "grep",
    "head",
    "ldconfig",
    "ls",
    "mkdir",
    "mktemp",
    "printf",
    "du",
    "cut",
    "readlink",
    "rm",
    "sed",
    "sleep",
    "tail",
    "tee",
    "true",
)

PYTHON = """#!/bin/sh
# runs what it is given, except that environments and installations are only written down
here=$(readlink -f "$0")
case "$*" in
    "-I -m venv "*)
        echo "venv" >>"$LOG"
        mkdir -p "$4/bin" && cat "$here" >"$4/bin/python" && chmod +x "$4/bin/python" ;;
    "-I -u -m pip install"*)
        for last; do :; done
        echo "install $last" >>"$LOG"
        sleep 0.2
        [ ! -e "$LOG.broken" ] || { cat "$LOG.broken"; exit 1; }
        echo "  Downloading numba-0.68.1-cp311-cp311-linux.whl.metadata (2 kB)"
        echo "Downloading numba-0.68.1-cp311-cp311-linux.whl (3.8 MB)"
        echo "Installing collected packages: numba"
        mkdir -p "${0%bin/python}lib/python3.11/site-packages"
        echo "$(pwd)" >"${0%bin/python}lib/python3.11/site-packages/_editable_impl_vfs.pth"
        printf '%s\\n' '#!/bin/sh' '[ "$1" != doctor ] || { echo compiled; exit; }' >"${0%python}vfs"
        echo 'echo "vfs in $(pwd):" "$@"' >>"${0%python}vfs"
        chmod +x "${0%python}vfs" ;;
    "-I -c import pip") ;;
    *ensurepip*) REAL "$@" >/dev/null && echo "$here" ;;
    "-m tests.clients.install"*) echo "clients into ${3##*/}" >>"$LOG" ;;
    "-m tests."* | "-m scripts."*) echo "${0#"$(pwd)"/}" "$@" ;;
    "-m pytest"*) [ -z "${VFS_CLIENTS:-}" ] || echo "clients of ${VFS_CLIENTS##*/}"; echo "pytest in $(pwd): $*" ;;
    *) exec REAL "$@" ;;
esac
"""
OLD = "#!/bin/sh\nexit 1\n"
LAME = (
    '#!/bin/sh\n[ -e "$LOG.apt" ] && exec GOOD "$@"\ncase "$*" in *ensurepip*) echo 3.11; exit 3;; *) exec REAL "$@";;'
    " esac\n"
)


class Checkout:
    """A checkout of nothing but the scripts, and a PATH of stand-ins."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a checkout"
        self.tools = folder / "tools"
        self.log = folder / "log"
        (self.root / "scripts").mkdir(parents=True)
        for name in ("run", "test", "load", "fuzz", "bench", "mutants", "env.sh"):
            shutil.copy(SCRIPTS / name, self.root / "scripts" / name)
        (self.root / "pyproject.toml").write_text("[project]\n")
        self.tools.mkdir()
        for name in TOOLS:
            if found := shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
                (self.tools / name).symlink_to(found)
        self.tool("id", "#!/bin/sh\necho 1000\n")
        self.tool("fusermount3", "#!/bin/sh\n")

    def tool(self, name: str, text: str) -> Path:
        path = self.tools / name
        path.unlink(missing_ok=True)
        path.write_text(text.replace("REAL", sys.executable).replace("GOOD", str(self.tools / "good")))
        path.chmod(0o755)
        return path

    def start(
        self, script: str | Path, *arguments: str, cwd: Path | str = "/", **variables: str
    ) -> subprocess.Popen[str]:
        script = self.root / "scripts" / script if isinstance(script, str) else script
        environment = {"PATH": str(self.tools), "HOME": str(self.root.parent), "LOG": str(self.log), **variables}
        return subprocess.Popen(
            ["sh", str(script), *arguments],
            cwd=cwd,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(
        self, script: str | Path, *arguments: str, cwd: Path | str = "/", **variables: str
    ) -> tuple[int, str, str]:
        with self.start(script, *arguments, cwd=cwd, **variables) as process:
            out, err = process.communicate(timeout=250)
        return process.returncode, out, err

    @property
    def did(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path)
    made.tool("python3", PYTHON)
    return made


def test_run_makes_its_environment_once_and_passes_everything_on(checkout: Checkout, tmp_path: Path) -> None:
    status, out, err = checkout.call("run", "info", "a b.mib", "-v", cwd=tmp_path)
    assert (status, out) == (0, f"vfs in {tmp_path}: info a b.mib -v\n")
    steps = [line for line in err.splitlines() if "not mount" not in line]
    wanted = [
        r"vfs: preparing .*a checkout/\.venv \(once.*\)",
        r"vfs:   numba-0\.68\.1, 3\.8 MB",
        "vfs: unpacking these packages",
        "compiled",
        r"vfs: installed, .* in .*a checkout/\.venv; .*undoes it",
        "vfs: alias vfs=.*/scripts/run",
    ]
    for line, said in zip(steps, wanted, strict=True):
        assert re.fullmatch(said, line)
    assert checkout.did == ["venv", "install .[tiff,hdf5,serve]"]
    status, out, err = checkout.call("run", "info")
    assert (status, out, err) == (0, "vfs in /: info\n", "")
    assert len(checkout.did) == 2


def test_run_without_arguments_is_the_demo(checkout: Checkout) -> None:
    assert checkout.call("run")[1] == "vfs in /: demo\n"


def test_run_through_a_link_from_anywhere(checkout: Checkout, tmp_path: Path) -> None:
    link = tmp_path / "my vfs"
    link.symlink_to(checkout.root / "scripts" / "run")
    assert checkout.call(link, "formats", cwd=tmp_path, CDPATH=str(tmp_path))[:2] == (
        0,
        f"vfs in {tmp_path}: formats\n",
    )
    relative = tmp_path / "second"
    relative.symlink_to("my vfs")
    assert checkout.call(relative, "formats")[0] == 0
    assert (checkout.root / ".venv" / ".stamp").exists()
    assert len(checkout.did) == 2


def test_a_changed_pyproject_is_installed_anew(checkout: Checkout) -> None:
    checkout.call("run")
    (checkout.root / "pyproject.toml").touch()
    checkout.call("run")
    assert len(checkout.did) == 2, "the same text"
    (checkout.root / "pyproject.toml").write_text("[project]\nname = 'vfs'\n")
    checkout.call("run")
    assert checkout.did[2:] == ["install .[tiff,hdf5,serve]"]


def test_a_moved_checkout_and_a_vanished_python_start_over(checkout: Checkout) -> None:
    checkout.call("run")
    (checkout.root / ".venv" / "bin" / "python").unlink()
    assert checkout.call("run")[0] == 0
    assert checkout.did[2:] == ["venv", "install .[tiff,hdf5,serve]"]
    moved = checkout.root.with_name("elsewhere")
    checkout.root = checkout.root.rename(moved)
    assert checkout.call("run")[:2] == (0, "vfs in /: demo\n")
    assert checkout.did[4:] == ["venv", "install .[tiff,hdf5,serve]"]


def test_two_at_once_install_once(checkout: Checkout) -> None:
    both = [checkout.start("run", "formats") for _ in range(4)]
    for process in both:
        out, _ = process.communicate(timeout=250)
        assert (process.returncode, out) == (0, "vfs in /: formats\n")
    assert checkout.did == ["venv", "install .[tiff,hdf5,serve]"]


@pytest.mark.parametrize(
    ("log", "lines", "said"),
    [
        ("no such package: numba", 5, r"installing into .*\.venv failed, .*install\.log"),
        (
            "WARNING: Retrying: NewConnectionError('Failed to establish')\n" * 20,
            4,
            "cannot be reached; behind a proxy set HTTPS_PROXY, .*PIP_INDEX_URL.*PIP_CERT",
        ),
        ("SSLError(SSLCertVerificationError: CERTIFICATE_VERIFY_FAILED)\n" * 20, 4, "certificate .*PIP_CERT"),
    ],
    ids=["package", "offline", "certificate"],
)
def test_a_failed_installation_says_why_and_is_tried_again(checkout: Checkout, log: str, lines: int, said: str) -> None:
    broken = checkout.log.with_name("log.broken")
    broken.write_text(f"{log}\n")
    status, out, err = checkout.call("run")
    assert (status, out) == (1, "")
    assert re.search(rf"vfs: .*{said}.*\n$", err)
    assert err.count("\n") <= lines - 2 + ("numba" in log)
    assert ("no such package: numba" in err) is ("numba" in log)
    broken.unlink()
    assert checkout.call("run")[:2] == (0, "vfs in /: demo\n")


def test_an_environment_names_its_checkout_without_its_path(checkout: Checkout) -> None:
    """Python 3.11 reads *.pth in the locale's encoding: with LC_ALL=C an umlaut there ended every command."""
    assert checkout.call("run", "formats")[0] == 0
    (link,) = (checkout.root / ".venv" / "lib" / "python3.11" / "site-packages").glob("*.pth")
    folder = checkout.root / "Ümlaut"
    code = (
        "import sys; sys.path.clear(); sys.prefix = sys.argv[1]; exec(open(sys.argv[2]).read()); print(ascii(sys.path))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(folder / ".venv"), str(link)], capture_output=True, text=True, check=True
    )
    assert link.read_text().isascii()
    assert str(checkout.root) not in link.read_text()
    assert done.stdout == f"{[str(folder)]!a}\n"


def test_without_a_python_it_says_what_is_needed(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    checkout.tool("python3", OLD)
    status, out, err = checkout.call("run")
    assert (status, out) == (1, "")
    assert err.startswith("vfs: needs Python 3.11 or newer")
    assert err.count("\n") == 1


def test_a_python_of_pyenv_is_found(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    home = tmp_path / ".pyenv" / "versions" / "3.12.1" / "bin"
    home.mkdir(parents=True)
    checkout.tool("made", PYTHON).rename(home / "python")
    assert checkout.call("run")[0] == 0


def test_a_python_without_venv_is_passed_over(checkout: Checkout) -> None:
    checkout.tool("python3.12", LAME)
    assert checkout.call("run")[0] == 0


def test_a_python_without_venv_alone_names_the_package(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    checkout.tool("python3", LAME)
    status, _, err = checkout.call("run")
    assert status == 1
    assert "sudo apt install python3.11-venv" in err
    assert err.count("\n") == 1


APT = """#!/bin/sh
echo "$@" >>"$LOG.apt"
case "$*" in *install*)
    echo "Get:1 http://deb.debian.org/debian trixie/main amd64 python3-venv amd64 3.13.5-1 [1224 B]"
    echo "Setting up python3-venv (3.13.5-1) ..." ;;
esac
"""
PYTHON_BY_APT = 'case "$*" in *install*python3*) mv "{made}" "{tools}/python3" ;; esac\n'


@pytest.mark.parametrize(
    ("uid", "sudo", "refused", "manager"),
    [
        ("0", None, "", "apt-get"),
        ("0", None, "1", "apt-get"),
        ("1000", None, "", "apt-get"),
        ("1000", "exit 1", "", "apt-get"),
        ("1000", 'shift; exec "$@"', "", "apt-get"),
        ("0", None, "", "dnf"),
    ],
)
@pytest.mark.parametrize("lacking", ["Python", "venv"])
def test_what_the_system_lacks_is_installed_where_that_is_allowed(
    tmp_path: Path, lacking: str, uid: str, sudo: str | None, refused: str, manager: str
) -> None:
    """As root, or by a sudo that asks for no password; what and why is said before."""
    checkout = Checkout(tmp_path)
    checkout.tool("mv", f'#!/bin/sh\nexec {shutil.which("mv")} "$@"\n')
    checkout.tool("id", f"#!/bin/sh\necho {uid}\n")
    if lacking == "venv":
        checkout.tool("python3", LAME)
        checkout.tool("good", PYTHON)
        checkout.tool(manager, APT)
    else:
        made = checkout.tool("made", PYTHON)
        checkout.tool(manager, APT + PYTHON_BY_APT.format(made=made, tools=checkout.tools))
    if sudo is not None:
        checkout.tool("sudo", f"#!/bin/sh\n{sudo}\n")
    status, out, err = checkout.call("run", "formats", VFS_NO_INSTALL=refused)
    allowed = not refused and (uid == "0" or sudo == 'shift; exec "$@"')
    assert (tmp_path / "log.apt").exists() is allowed
    if allowed:
        assert (status, out) == (0, "vfs in /: formats\n"), err
        what = (
            "there is no Python: installing"
            if lacking == "Python"
            else "Python 3.11 cannot make environments: installing"
        )
        assert err.startswith(f"vfs: {what} python3")
        assert manager in err.splitlines()[0]
        assert "vfs:   python3-venv, 1224 B\nvfs:   setting up python3-venv\n" in err
    else:
        assert (status, out) == (1, "")
        assert err.count("\n") == 1
        assert "python3-venv" in err or "python3.11-venv" in err


@pytest.mark.parametrize(
    ("choice", "status"),
    [("{tools}/python3", 0), ("python3", 0), ("{major}.{minor}", 0), ("3.99", 1), ("no-such-python", 1)],
)
def test_the_python_can_be_chosen(checkout: Checkout, choice: str, status: int) -> None:
    text = choice.format(tools=checkout.tools, major=sys.version_info[0], minor=sys.version_info[1])
    got, _, err = checkout.call("run", VFS_PYTHON=text)
    assert got == status
    assert ("no Python" in err) is (status != 0)


def test_test_runs_pytest_at_the_top_of_the_checkout(checkout: Checkout, tmp_path: Path) -> None:
    status, out, _ = checkout.call("test", "-k", "a b", cwd=tmp_path)
    assert (status, out) == (0, f"pytest in {checkout.root}: -m pytest -n 4 -k a b\n")
    assert checkout.did == ["venv", "install pip>=25.1", "install dev"]
    assert (checkout.root / ".venv-test" / ".stamp").exists()


def test_test_has_an_environment_for_each_python_asked_for(checkout: Checkout) -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for _ in range(2):
        status, out, _ = checkout.call("test", "--python", version, "-x")
        assert (status, out) == (0, f"pytest in {checkout.root}: -m pytest -n 4 -x\n")
    assert checkout.did == ["venv", "install pip>=25.1", "install dev"]
    assert (checkout.root / f".venv-test-{version}" / ".stamp").exists()
    assert checkout.call("test", "--python", "3.99")[0] == 1


@pytest.mark.parametrize(
    ("script", "module"),
    [
        ("load", "tests.fuse.load"),
        ("fuzz", "tests.fuzz"),
        ("bench", "scripts.benchmarks.bench"),
        ("mutants", "scripts.mutation"),
    ],
)
def test_bench_load_and_fuzz_take_the_python_asked_for(checkout: Checkout, script: str, module: str) -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for given, folder in (("", ".venv-test"), (version, f".venv-test-{version}")):
        status, out, _ = checkout.call(script, "reduce", VFS_PYTHON=given)
        assert (status, out) == (0, f"{folder}/bin/python -m {module} reduce\n")


def test_clients_have_an_environment_of_their_own_and_are_all_that_runs(checkout: Checkout) -> None:
    status, out, _ = checkout.call("test", "--clients", "-k", "a b")
    assert (status, out) == (
        0,
        f"clients of .venv-clients\npytest in {checkout.root}: -m pytest -n 4 tests/clients -k a b\n",
    )
    assert checkout.did == ["venv", "install pip>=25.1", "install dev", "clients into .venv-clients"]
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for options in (("--clients", "--python", version), ("--python", version, "--clients")):
        assert checkout.call("test", *options)[1].startswith(f"clients of .venv-clients-{version}\n")
    assert checkout.call("test", "-k", "--clients")[1] == f"pytest in {checkout.root}: -m pytest -n 4 -k --clients\n", (
        "an argument of pytest"
    )


def test_test_ends_as_pytest_ends(checkout: Checkout) -> None:
    checkout.tool("python3", PYTHON.replace('echo "pytest', 'exit 5; echo "pytest'))
    assert checkout.call("test")[0] == 5


def test_test_only_prepares_when_asked(checkout: Checkout) -> None:
    assert checkout.call("test", VFS_BOOTSTRAP_ONLY="1")[:2] == (0, "")
    assert checkout.did == ["venv", "install pip>=25.1", "install dev"]


def test_test_says_loudly_that_there_is_no_libfuse(checkout: Checkout) -> None:
    checkout.tool("ldconfig", "#!/bin/sh\n")
    status, _, err = checkout.call("test")
    assert status == 0
    assert [line for line in err.splitlines() if "apt install fuse3" in line] == err.splitlines()[-2:]
    assert err.splitlines()[-1].startswith("vfs: THE MOUNT WAS NOT TESTED")


def test_root_on_debian_installs_libfuse(checkout: Checkout) -> None:
    checkout.tool("ldconfig", "#!/bin/sh\n[ ! -e \"$LOG.apt\" ] || echo 'libfuse3.so.3 libfuse.so.2'\n")
    checkout.tool("id", "#!/bin/sh\necho 0\n")
    checkout.tool("apt-get", '#!/bin/sh\necho "$@" >>"$LOG.apt"\n')
    _, _, err = checkout.call("test")
    assert re.match(r"vfs: this installs, once: Python packages into .*\.venv-test \(1\.6 GB\); .*: libfuse2 ", err)
    assert "libfuse2" in checkout.log.with_name("log.apt").read_text()
    assert "no libfuse" not in err
