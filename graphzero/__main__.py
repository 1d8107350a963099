"""`python -m graphzero` is the `graphzero` command."""

from graphzero.cli import main

main()
