"""Malformed files: each is refused at open with a typed error that names the fault, and no check is without a file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from corpus import malformed

import graphzero as gz

CORE = Path(__file__).resolve().parents[2] / "core" / "format"

# Reached by parse_header() alone: opening a file looks at its size before it reads that far.
NOT_THROUGH_OPEN = {": the file ends inside its header ("}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    malformed.write(folder)
    return folder


def refusal(path: Path) -> str:
    opener = gz.Graph if path.suffix == ".gl" else gz.FeatureStore
    with pytest.raises(gz.FormatError) as raised:
        opener(path)
    return str(raised.value)


def test_each_file_is_refused_with_its_own_message(corpus: Path) -> None:
    manifest = json.loads((corpus / "manifest.json").read_text())
    assert len(manifest) > 300
    wrong = {}
    for name, expected in manifest.items():
        try:
            message = refusal(corpus / name)
        except pytest.fail.Exception:
            wrong[name] = "it was opened"
            continue
        if expected not in message or not message.startswith(f"{corpus / name}: "):
            wrong[name] = f"{message!r} lacks {expected!r}"
    assert not wrong


def test_the_files_they_were_made_from_open_and_verify(tmp_path: Path) -> None:
    # The control: what is refused above is refused for its one fault, not because the writer here is wrong.
    sound = {
        "a.gl": malformed.sound_topology().bytes(),
        "c.gl": malformed.sound_rectangle().bytes(),
        "a.gd": malformed.sound_features().bytes(),
        "b.gl": malformed.sound_legacy_topology(),
        "b.gd": malformed.sound_legacy_features(),
    }
    for name, data in sound.items():
        (tmp_path / name).write_bytes(data)
        gz.Graph(tmp_path / name) if name.endswith(".gl") else gz.FeatureStore(tmp_path / name)
        gz.verify(tmp_path / name)


def checks_of(source: str) -> list[str]:
    """The longest literal of each message that the source can refuse a file with."""
    found = []
    for call in re.findall(r"fail<FormatError>\((.*?)\);", source, re.DOTALL):
        literals = re.findall(r'"((?:[^"\\]|\\.)*)"', call)
        found.append(max(literals, key=len).strip())
    return found


def test_every_check_of_the_format_has_a_file(corpus: Path) -> None:
    messages = [refusal(corpus / name) for name in json.loads((corpus / "manifest.json").read_text())]
    lacking = []
    for name in ("container.cpp", "schema.cpp", "legacy.cpp"):
        checks = checks_of((CORE / name).read_text())
        assert checks
        lacking += [c for c in checks if c not in NOT_THROUGH_OPEN and not any(c in m for m in messages)]
    assert not lacking


def test_a_check_without_a_file_would_be_noticed() -> None:
    assert checks_of('fail<FormatError>(path, ": moon is ", x,\n  ", expected full moon");') == [", expected full moon"]
