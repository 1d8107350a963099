"""Lines of text files by their numbers: looked up in one pass for all messages."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

import graphzero as gz
from graphzero.sources import edge_text, text
from graphzero.sources.text import lines_at

TEXT = b"\xef\xbb\xbffirst\r\n\nthird with more\n#fourth\n" + b"x" * 300 + b"\nlast"
LINES = {1: "first", 2: "", 3: "third with more", 4: "#fourth", 5: "x" * 300, 6: "last"}


@pytest.mark.parametrize("block", [3, 7, 64, 1 << 20])
@pytest.mark.parametrize("numbers", [{1}, {2, 3}, {6, 4}, {5}, {1, 2, 3, 4, 5, 6}, {6, 7, 9}, set()])
def test_lines_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, numbers: set[int]) -> None:
    monkeypatch.setattr(text, "_BLOCK", block)
    expected = {number: LINES[number] for number in sorted(numbers) if number in LINES}
    for name, content in (("plain", TEXT), ("zipped", gzip.compress(TEXT))):
        (tmp_path / name).write_bytes(content)
        assert lines_at(str(tmp_path / name), numbers) == expected
    (tmp_path / "ends").write_bytes(TEXT + b"\n")
    assert lines_at(str(tmp_path / "ends"), numbers) == expected | ({7: ""} if 7 in numbers else {})


def test_skipped_lines_are_looked_up_in_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "e.csv").write_text("src,dst\n" + "1,2\n" * 1000 + "3,\n,4\n" * 10)
    passes: list[Any] = []

    def counted(*args: Any) -> Any:
        passes.append(args)
        return lines_at(*args)

    monkeypatch.setattr(edge_text, "lines_at", counted)
    monkeypatch.setattr(edge_text, "content_lines", lambda path: passes.append(path) or iter(()), raising=False)
    report = gz.compile_graph(tmp_path / "e.csv", tmp_path / "e.gl", on_error="skip")
    assert len(passes) == 1
    assert report.lines_skipped == 20
    assert [example.rpartition("e.csv: ")[2] for example in report.skipped_examples] == [
        f"line {number}: column {'dst' if number % 2 == 0 else 'src'!r} is empty, expected a node id"
        for number in range(1002, 1010)
    ]
