"""The `graphzero` command. Each command is a file of this folder, listed in app.py."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from .app import app
    except ModuleNotFoundError as e:
        if e.name not in ("typer", "rich"):
            raise
        sys.exit(f"graphzero: error: the command line needs {e.name}: pip install 'graphzero[cli]'")
    app(prog_name="graphzero")
