"""The `graphzero` command."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    raise SystemExit("graphzero: no commands yet")
