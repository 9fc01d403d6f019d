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

# system_install WHY PACKAGES [THOSE OF DNF]: installs what the system lacks with apt or dnf, as root or by a sudo that asks for
# no password, and says before what and why. True where it did. VFS_NO_INSTALL=1 refuses.
system_install() {
    may_install || return 1
    manager=apt-get packages=$2
    command -v apt-get >/dev/null || { command -v dnf >/dev/null && manager=dnf packages=${3:-$2}; } || return 1
    say "$1: installing $packages (${sudo:+sudo }$manager; VFS_NO_INSTALL=1 refuses)"
    quiet='-q -y --no-install-recommends'
    [ $manager = apt-get ] || quiet='-q -y --setopt=install_weak_deps=False'
    [ $manager = dnf ] || [ -n "${updated:-}" ] || $sudo apt-get update -qq >/dev/null 2>&1 || true
    updated=1
    said=$(mktemp)
    { $sudo env DEBIAN_FRONTEND=noninteractive $manager install $quiet $packages 2>&1 || echo "$manager failed"; } | tee "$said" | system_packages >&2
    failed=$(grep -c "^$manager failed$" "$said" || true)
    [ "$failed" = 0 ] || say "$manager could not: $(grep -m 1 '^E: \|^Error: ' "$said" || tail -n 2 "$said" | head -n 1)"
    rm -f "$said"
    [ "$failed" = 0 ]
}

# Of what apt-get and dnf print, a line for each package that is fetched, `  fuse3, 28.1 kB`, and for each that is set up.
system_packages() {
    sed -un -e 's/^Get:[0-9]* [^ ]* [^ ]* [^ ]* \([^ ]*\) .*\[\(.*\)\]$/vfs:   \1, \2/p' \
        -e 's/^Setting up \([^ ]*\) .*/vfs:   setting up \1/p' -e 's/^ *Installing *: \([^ ]*\) .*/vfs:   setting up \1/p'
}

# True for root, and where sudo asks for no password; sets $sudo.
may_install() {
    [ -z "${VFS_NO_INSTALL:-}" ] || return 1
    sudo=
    [ "$(id -u)" = 0 ] || { sudo -n true 2>/dev/null && sudo='sudo -n'; }
}

# True where the system has a library.
library() { PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | grep -q "$1"; }

# Sees to libfuse, to fusermount3, which mounts for those who are not root, and to /etc/mtab, by which that ends mounts.
mount_tools() {
    { library 'libfuse3\.so' && command -v fusermount3 >/dev/null; } || system_install 'to mount' fuse3 ||
        library 'libfuse\(3\.so\|\.so\.2\)' || say "vfs will not mount, all else works: there is no libfuse (sudo apt install fuse3, or sudo dnf install fuse3)"
    [ -e /etc/mtab ] || { may_install && say 'to unmount: making /etc/mtab, a link to /proc/self/mounts' && $sudo ln -s ../proc/self/mounts /etc/mtab; } || true
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
    [ -n "$lame$choice" ] || command -v python3 >/dev/null || ! system_install 'there is no Python' 'python3 python3-venv' python3 || lame=3
    if [ -n "$lame" ]; then
        if [ $lame = 3 ] || system_install "Python $lame cannot make environments" "python$lame-venv"; then
            for candidate; do python=$(probe "$candidate" "$want") && return 0; done
        fi
        [ $lame = 3 ] || fail "Python $lame is here, but not the module that makes environments; on Debian and Ubuntu: sudo apt install python$lame-venv"
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

# environment DIR EXTRAS [GROUP [lowest]]: $root/DIR holds what this checkout depends on, with a dependency group where one is
# named, and the lowest versions that pyproject.toml allows where that is said. Made where it is missing, renewed where
# pyproject.toml has changed ($made is set then); two at once wait for each other.
environment() {
    env=$root/$1
    extras=$2
    group=${3:-}
    lowest=${4:-}
    made=
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
        : >"$env/install.log"
        rm -f "$env/.broken"
        { install 2>&1 || : >"$env/.broken"; } | tee -a "$env/install.log" | downloads
        [ ! -e "$env/.broken" ] || broken
        made=yes
        printf '%s\n' "$stamp" >"$env/.stamp"
    fi
    exec 9>&-
}

# Installs this checkout into $env, and what $extras, $group and $lowest say.
install() (
    cd "$root" || exit
    pip() { "$env/bin/python" -I -u -m pip install --no-compile --no-input --disable-pip-version-check --progress-bar off "$@"; }
    [ -z "$lowest" ] || {
        pip uv && "$env/bin/uv" pip compile -q --python "$env/bin/python" --resolution lowest-direct --extra "$extras" --output-file "$env/lowest.txt" pyproject.toml
    } || exit
    [ -z "$group" ] || pip 'pip>=25.1' || exit  # older ones know no dependency groups
    pip ${lowest:+-c "$env/lowest.txt"} -e ".[$extras]" ${group:+--group "$group"} || exit
    # Where the checkout is, without its path: Python 3.11 reads these files in the locale's encoding (LC_ALL=C: ASCII)
    for link in "$env"/lib/python3*/site-packages/_*vfs.pth; do
        printf 'import os, sys; sys.path.append(os.path.dirname(os.path.realpath(sys.prefix)))\n' >"$link"
    done
)

# Of what pip prints a line for each package: `  numpy-2.3.5, 16.6 MB`.
downloads() {
    while IFS= read -r line; do
        case $line in
            *.metadata\ *) ;;
            *'Downloading '*' ('*')' | *'Using cached '*' ('*')')
                size=${line##* (}
                file=${line% (*}
                file=${file##*[/ ]}
                say "  ${file%-*-*-*.whl}, ${size%)}" ;;
            'Installing collected packages: '*) say 'unpacking these packages' ;;
        esac
    done
}

fresh() { [ -x "$env/bin/python" ] && [ "$(cat "$env/.root" 2>/dev/null)" = "$root" ] && [ "$(cat "$env/.stamp" 2>/dev/null)" = "$stamp" ]; }

broken() {
    log=$env/install.log
    reach='it needs the package index (PIP_INDEX_URL, else https://pypi.org/simple)'
    if grep -q 'CERTIFICATE_VERIFY_FAILED\|SSLError' "$log"; then
        fail "installing into $env failed: $reach, whose certificate is not trusted here; set PIP_CERT to the file with your network's certificate ($log)"
    elif grep -q 'ProxyError\|NewConnectionError\|NameResolutionError\|ConnectTimeout\|ReadTimeout\|Network is unreachable' "$log"; then
        fail "installing into $env failed: $reach, which cannot be reached; behind a proxy set HTTPS_PROXY, with an index of your own PIP_INDEX_URL and PIP_CERT ($log)"
    fi
    grep -v '^WARNING: Location' "$log" | tail -n 15 >&2
    fail "installing into $env failed, see above; all of it: $log"
}
