# Sourced by run and test: finds a Python, makes an environment of it. POSIX sh; expects $root, the folder of the checkout.
#
# VFS_PYTHON chooses the Python: a version (3.12), a name or a path.

# What is imported is compiled once and kept: without that, each process that imports numba or zarr compiles them anew (0.7 s).
unset PYTHONDONTWRITEBYTECODE

say() { printf 'vfs: %s\n' "$*" >&2; }

fail() {
    say "$@"
    exit 1
}

# The package manager, quietly: true where it installed what it was asked for.
apt_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    say "installing $* with apt"
    DEBIAN_FRONTEND=noninteractive
    export DEBIAN_FRONTEND
    apt-get update -qq >/dev/null 2>&1 || true
    apt-get install -qq -y --no-install-recommends "$@" >/dev/null 2>&1
}

# Prints the interpreter behind a name, not that of an environment around it. Status 1: it does not run or is older than 3.11;
# 4: it is another version than asked for; 3: it cannot make environments (Debian packs that apart) and it prints its version.
probe() {
    "$1" -I -c '
import os, sys
have, want = sys.version_info[:2], sys.argv[1]
if have < (3, 11): sys.exit(1)
if want and want != "%d.%d" % have: sys.exit(4)
try: import ensurepip, venv
except ImportError: print("%d.%d" % have); sys.exit(3)
print(os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable))' "$2" 2>/dev/null
}

# Sets $python.
find_python() {
    choice=${VFS_PYTHON:-}
    versions=${PYENV_ROOT:-${HOME:-}/.pyenv}/versions
    case $choice in
        '') set -- python3.12 python3.13 python3.11 python3.14 python3 python "$versions"/3.1[1-9]*/bin/python ;;
        *[!0-9.]*) set -- "$choice" ;;
        *) set -- "python$choice" python3 "$versions/$choice"/bin/python "$versions/$choice".*/bin/python ;;
    esac
    case $choice in *[!0-9.]*) want= ;; *) want=$choice ;; esac
    lame=
    for candidate; do
        status=0
        python=$(probe "$candidate" "$want") || status=$?
        [ $status != 0 ] || return 0
        [ $status != 3 ] || lame=${lame:-$python}
    done
    if [ -n "$lame" ]; then
        if apt_install "python$lame-venv"; then
            for candidate; do python=$(probe "$candidate" "$want") && return 0; done
        fi
        fail "Python $lame is here, but not the module that makes environments; on Debian and Ubuntu: sudo apt install python$lame-venv"
    fi
    [ -z "$choice" ] || fail "no Python $choice here that runs and is 3.11 or newer (looked for: $*)"
    fail "needs Python 3.11 or newer (looked for python3, python3.11 to python3.14 and pyenv's versions); on Debian 12, Ubuntu 24.04 or newer: sudo apt install python3 python3-venv"
}

# Prints the folder of an environment: NAME, or NAME-3.12 where a Python is asked for by VFS_PYTHON.
environment_name() {
    [ -n "${VFS_PYTHON:-}" ] || { printf '%s\n' "$1"; return; }
    find_python
    printf '%s-%s\n' "$1" "$("$python" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
}

# environment DIR EXTRAS [GROUP [lowest]]: $root/DIR holds this checkout with its dependencies, those of a dependency group
# where one is named, and the lowest versions that pyproject.toml allows where that is said. Made where it is missing,
# renewed where pyproject.toml has changed; two at once wait for each other.
environment() {
    env=$root/$1
    extras=$2
    group=${3:-}
    lowest=${4:-}
    stamp=$({ printf '%s\n' "$extras $group $lowest"; cat "$root/pyproject.toml"; } | cksum)
    fresh && return 0
    find_python
    mkdir -p "$env" || fail "cannot make $env"
    say "preparing $env (once; takes a minute or two)"
    exec 9>"$env/.lock"
    "$python" -I -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'  # the lock stays with this shell's descriptor
    if ! fresh; then
        rm -f "$env/.stamp"
        if ! [ "$(cat "$env/.root" 2>/dev/null)" = "$root" ] || ! "$env/bin/python" -I -c 'import pip' 2>/dev/null; then
            find "$env" -mindepth 1 -maxdepth 1 ! -name .lock -exec rm -rf {} +  # half-made, moved, or its Python is gone
            "$python" -I -m venv "$env" >"$env/install.log" 2>&1 || broken
            printf '%s\n' "$root" >"$env/.root"
        fi
        install >"$env/install.log" 2>&1 || broken
        printf '%s\n' "$stamp" >"$env/.stamp"
    fi
    exec 9>&-
}

# Installs this checkout into $env, and what $extras, $group and $lowest say.
install() (
    cd "$root" || exit
    pip() { "$env/bin/python" -I -m pip install -q --no-compile --no-input --disable-pip-version-check "$@"; }
    [ -z "$lowest" ] || {
        pip uv && "$env/bin/uv" pip compile -q --python "$env/bin/python" --resolution lowest-direct --extra "$extras" --output-file "$env/lowest.txt" pyproject.toml
    } || exit
    [ -z "$group" ] || pip 'pip>=25.1' || exit  # older ones know no dependency groups
    pip ${lowest:+-c "$env/lowest.txt"} -e ".[$extras]" ${group:+--group "$group"}
)

fresh() { [ -x "$env/bin/python" ] && [ "$(cat "$env/.root" 2>/dev/null)" = "$root" ] && [ "$(cat "$env/.stamp" 2>/dev/null)" = "$stamp" ]; }

broken() {
    grep -v '^WARNING: Location' "$env/install.log" | tail -n 15 >&2
    fail "installing into $env failed, see above; all of it: $env/install.log"
}
