"""Explains why the native module cannot be imported, and how to fix it."""

from __future__ import annotations

import importlib.machinery
import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def explain_missing() -> str | None:
    """Return the message for a package without a native module for this Python; None if there is one."""
    found = sorted(name for name in os.listdir(_FOLDER) if name.startswith("_core.") and not name.endswith(".pyi"))
    if any(f"_core{suffix}" in found for suffix in importlib.machinery.EXTENSION_SUFFIXES):
        return None
    top = os.path.dirname(_FOLDER)
    version = ".".join(map(str, sys.version_info[:2]))
    built = f"the native module was built for another Python ({', '.join(found)}), this is Python {version}"
    if not os.path.isfile(os.path.join(top, "CMakeLists.txt")):
        why = built if found else "the native module is missing"
        return f"{_FOLDER}: {why}; reinstall graphzero with this Python: {sys.executable} -m pip install graphzero"
    why = f": {built}" if found else " without the native module"
    installed = _installed(top)
    other = f"the installed package ({installed})" if installed else "an installed package"
    return f"{top} is a source checkout{why}. Run `make build` in it, or start Python in another folder to use {other}."


def _installed(top: str) -> str | None:
    elsewhere = [path for path in sys.path if os.path.realpath(path or os.getcwd()) != os.path.realpath(top)]
    spec = importlib.machinery.PathFinder.find_spec("graphzero", elsewhere)
    return os.path.dirname(spec.origin) if spec is not None and spec.origin is not None else None
