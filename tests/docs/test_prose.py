"""Messages, comments and pages use standard terms: turns of phrase that readers stumbled over do not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("core", "bindings", "graphzero", "docs", "examples", "benchmarks")
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "FORMAT.md")
PATTERNS = {
    r"\b(somebody|nobody|whoever|whom)\b": "name the caller, the thread or the process",
    r"\btold\b": "reported, known, asked",
    r"\b(hears?|heard)\b": "receives messages from",
    r"\bhungry\b": "waiting",
    r"\bfor (good|ever)\b": "permanently, indefinitely",
    r"\bin vain\b": "without success",
    r"\bhalf again\b": "1.5 times",
    r"\bnone of ours\b": "unsupported",
    r"\bstands? twice\b": "duplicate",
    r"\bhas not the\b": "does not have",
    r"\bdivided by '": "separated by",
    r"\bclasses apart\b": "found N classes",
    r"\bno budget can hold\b": "too large for memory=",
    r"\b(he|him|his)\b": "it, the user",
}


def sources() -> list[Path]:
    found = [ROOT / page for page in PAGES]
    for folder in FOLDERS:
        found += [p for p in sorted((ROOT / folder).rglob("*")) if p.suffix in (".py", ".h", ".cpp", ".md")]
    return found


@pytest.mark.parametrize("pattern", PATTERNS)
def test_phrases_that_have_a_standard_term_do_not_come_back(pattern: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in sources()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(pattern, line, re.IGNORECASE)
    ]
    assert not found, f"write {PATTERNS[pattern]!r} instead:\n" + "\n".join(found[:20])


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_patterns_find_what_they_are_for(pattern: str) -> None:
    text = (
        "nobody told the hungry consumer, who hears his neighbours for good, in vain, half again as fast; it is "
        "none of ours, stands twice, has not the memory, divided by ',', tells classes apart, no budget can hold"
    )
    assert re.search(pattern, text, re.IGNORECASE)
