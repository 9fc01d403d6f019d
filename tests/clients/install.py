"""Installs the clients of `scripts/test --clients` that the test environment does not have: `python
-m tests.clients.install FOLDER`.

FOLDER is an environment of Python with vfs in it. Into it go packages from PyPI; beside these in
FOLDER an environment with zarr 2 (`zarr2`) and packages from npm (`npm`). Debian's packages go into
the system, where root and apt are there to do it. What is there already stays as it is.
FOLDER/clients.json then says of each client that could not be installed, why. Nothing here is an
error: the tests say what is missing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

SYSTEM_PYTHON = "/usr/bin/python3"
"""Debian's modules for Python belong to Debian's Python."""

NOT_FROM_GITHUB = {"ikonate": "^1.1.1"}
"""Of neuroglancer's icons, the package in npm, which may not be the revision that it asks of GitHub."""


def said(command: Sequence[str | Path], cwd: Path | None = None) -> str:
    """Run a command: "" where it succeeds, otherwise the last thing it said, or why it does not run."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=900,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = [
        line.strip()
        for line in done.stdout.splitlines()
        if line.strip() and not line.startswith(("WARNING", "npm warn"))
    ]
    return "" if done.returncode == 0 else (lines or [f"{command[0]} ended with status {done.returncode}"])[-1]


def pip(python: str | Path, *requirements: str) -> str:
    """Install packages from PyPI into an environment; "" or why not."""
    return said(
        [python, "-I", "-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check", *requirements]
    )


def imports(python: str | Path, module: str) -> bool:
    return not said([python, "-I", "-c", f"import {module}"])


def from_pypi(module: str, requirement: str) -> str:
    return "" if imports(sys.executable, module) else pip(sys.executable, requirement)


def from_debian(check: Sequence[str], *packages: str) -> str:
    """Install packages with apt unless a command works already; "" or why not."""
    if not said(check):
        return ""
    if os.geteuid() or not shutil.which("apt-get"):
        return f"needs root on Debian or Ubuntu: apt install {' '.join(packages)}"
    said(["apt-get", "update", "-qq"])
    return said(
        [
            "env",
            "DEBIAN_FRONTEND=noninteractive",
            "apt-get",
            "install",
            "-qq",
            "-y",
            "--no-install-recommends",
            *packages,
        ]
    ) or said(check)


def zarr2(folder: Path) -> str:
    python = folder / "zarr2" / "bin" / "python"
    if imports(python, "zarr, fsspec, aiohttp"):
        return ""
    made = said([sys.executable, "-I", "-m", "venv", "--clear", folder / "zarr2"])
    return made or pip(python, "zarr<3", "fsspec[http]")


def from_npm(folder: Path, *packages: str) -> str:
    """Install packages that belong together into one folder; "" or why not."""
    home = folder / "npm"
    if all((home / "node_modules" / package).is_dir() for package in packages):
        return ""
    home.mkdir(exist_ok=True)
    about = home / "package.json"
    known = json.loads(about.read_text()) if about.exists() else {}
    about.write_text(json.dumps(known | {"overrides": NOT_FROM_GITHUB}))
    missing = from_debian(["npm", "--version"], "nodejs", "npm")
    return missing or said(["npm", "install", "--no-fund", "--no-audit", *packages], cwd=home)


def chromium(folder: Path) -> str:
    """Install what drives a browser, and Debian's browser."""
    return from_npm(folder, "playwright-core") or from_debian(["chromium", "--version"], "chromium")


def install(folder: Path) -> dict[str, str]:
    """Install everything; what is missing and why."""
    reasons = {
        "zarrs": from_pypi("zarrs", "zarrs"),
        "obstore": from_pypi("obstore", "obstore"),
        "jupyter-server-proxy": from_pypi("jupyter_server_proxy", "jupyter-server-proxy"),
        "rasterio": from_pypi("rasterio", "rasterio"),
        "netCDF4": from_pypi("netCDF4", "netCDF4"),
        "zarr2": zarr2(folder),
        "zarrita": (zarrita := from_npm(folder, "zarrita", "@zarrita/storage", "esbuild")),
        "Chromium": (browser := zarrita or chromium(folder)),
        "neuroglancer": browser or from_npm(folder, "neuroglancer"),
        "moto": from_pypi("moto.server", "moto[server]"),
        "s3rver": from_npm(folder, "s3rver"),
        "nginx": from_debian(["nginx", "-v"], "nginx-light"),
        "rclone": from_debian(["rclone", "--version"], "rclone"),
        "wget": from_debian(["wget", "--version"], "wget"),
        "cadaver": from_debian(["cadaver", "--version"], "cadaver"),
        "Samba": from_debian(["sh", "-c", "command -v smbd smbclient"], "samba", "smbclient"),
        "curl": from_debian(["curl", "--version"], "curl"),
        "ncdump": from_debian(["sh", "-c", "command -v ncdump"], "netcdf-bin"),
        "GDAL": from_debian([SYSTEM_PYTHON, "-c", "import osgeo.gdal, numpy"], "gdal-bin", "python3-gdal"),
        "netCDF4 of Debian": from_debian([SYSTEM_PYTHON, "-c", "import netCDF4"], "python3-netcdf4"),
    }
    return {name: reason for name, reason in reasons.items() if reason}


if __name__ == "__main__":
    where = Path(sys.argv[1])
    found = install(where)
    (where / "clients.json").write_text(json.dumps(found))
    for name, reason in found.items():
        print(f"vfs: not installed: {name}: {reason}", file=sys.stderr)
