"""Messages of the library, as the command line says them."""

from __future__ import annotations

import pytest

pytest.importorskip("typer")

from graphzero.cli.keywords import as_options


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("here already (overwrite=True replaces it)", "here already (--overwrite replaces it)"),
        ("give at most memory='2.15 GB'.", "give at most --memory '2.15 GB'."),
        ('compile with direction="in" (or "both")', 'compile with --direction in (or "both")'),
        ("num_threads=2", "--threads 2"),
        ("say header=True or header=False", "say --header or --no-header"),
        ("say weights=False, or times=3", "say --weights no, or --times 3"),
        ("directed=False stores both ways", "--undirected stores both ways"),
        ("choose one with feature=: 'x', 'y'", "choose one with --feature: 'x', 'y'"),
        ("hidden is 0, expected at least 1", "--hidden is 0, expected at least 1"),
        (
            "raise memory or lower batch_size or fanouts",
            "raise --memory or lower --batch-size or --fanouts",
        ),
        ("a/memory=3/x.gd and num_nodes.csv: no such file", "a/memory=3/x.gd and num_nodes.csv: no such file"),
        ("'num_nodes' and colour=True are nothing", "'num_nodes' and colour=True are nothing"),
    ],
)
def test_keywords_become_options(text: str, expected: str) -> None:
    assert as_options(text) == expected
