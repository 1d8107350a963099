"""Importing a package whose native module is missing, or was built for another Python, says what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import graphzero

SOURCE = Path(graphzero.__file__).parent


def checkout(folder: Path) -> Path:
    shutil.copytree(SOURCE, folder / "graphzero", ignore=shutil.ignore_patterns("_core.*", "__pycache__"))
    (folder / "CMakeLists.txt").touch()
    return folder / "graphzero"


def import_error(folder: Path, *path: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    done = subprocess.run(
        [sys.executable, "-c", "import graphzero"], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "circular import" not in done.stderr  # which Python guesses at
    return done.stderr.splitlines()[-1]


def test_a_checkout_without_the_native_module(tmp_path: Path) -> None:
    checkout(tmp_path)
    assert import_error(tmp_path, SOURCE.parent) == (
        f"ImportError: {tmp_path} is a source checkout without the native module. Run `make build` in it, or start "
        f"Python in another folder to use the installed package ({SOURCE})."
    )


def test_a_checkout_built_for_another_python(tmp_path: Path) -> None:
    (checkout(tmp_path) / "_core.cpython-32-x86_64-linux-gnu.so").touch()
    text = import_error(tmp_path)
    assert "source checkout: the native module was built for another Python (_core.cpython-32-x86_64" in text
    assert f"this is Python {sys.version_info[0]}.{sys.version_info[1]}. Run `make build`" in text


def test_a_package_that_was_installed_for_another_python(tmp_path: Path) -> None:
    (checkout(tmp_path) / "_core.cpython-32-x86_64-linux-gnu.so").touch()
    (tmp_path / "CMakeLists.txt").unlink()
    assert f"reinstall graphzero with this Python: {sys.executable} -m pip install graphzero" in import_error(tmp_path)


def test_an_error_of_the_module_itself_is_kept(tmp_path: Path) -> None:
    suffix = next(p.name for p in SOURCE.iterdir() if p.name.startswith("_core.") and p.suffix != ".pyi")
    (checkout(tmp_path) / suffix).write_bytes(b"not a library")
    assert "source checkout" not in import_error(tmp_path)
