"""`graphzero quickstart`: a graph from apt or from the sample, a model that uses it, and next commands that work."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("typer")
pytest.importorskip("matplotlib")

from typer.testing import CliRunner

import graphzero as gz
from graphzero.cli.app import app

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def run(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def no_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own as the current one, on a machine where nothing is installed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def test_the_next_commands_work_as_printed(no_apt: Path) -> None:
    done = run("quickstart", "first", "--packages", "200")
    assert done.exit_code == 0, done.output
    assert "from a sample of Debian's package index" in done.output
    assert "<html" in Path("first/report.html").read_text()
    commands = [line.strip() for line in done.output.splitlines() if line.startswith("  graphzero ")]
    assert len(commands) == 4
    for command in commands:
        made = run(*shlex.split(command)[1:])
        assert made.exit_code == 0, made.output
    assert Path("first/sections.csv").read_text().startswith("id,prediction,")
    assert run("quickstart", "first", "--packages", "200").exit_code == 0  # once more, in the same folder


def test_the_graph_helps_on_the_sample(no_apt: Path) -> None:
    report = json.loads(run("quickstart", "--json").stdout)
    assert report["most_common_accuracy"] + 0.1 < report["words_accuracy"] < report["test_accuracy"] - 0.05
    assert gz.Dataset(report["dataset"]).num_nodes == 3000


def test_the_index_of_apt_is_preferred(no_apt: Path) -> None:
    stanzas = [f"Package: p{i}\nSection: {'net' if i % 2 else 'libs'}\nDepends: p{(i + 2) % 150}\n" for i in range(150)]
    apt = no_apt / "bin" / "apt-cache"
    apt.write_text("#!/bin/sh\nwhile read -r line; do echo \"$line\"; done <<'END'\n" + "\n".join(stanzas) + "END\n")
    apt.chmod(0o755)
    done = run("quickstart", "--packages", "120")
    assert done.exit_code == 0, done.output
    assert "from the package index of this machine (apt)" in done.output
    assert "120 packages" in done.output


def test_a_dataset_of_someone_else_is_kept(no_apt: Path) -> None:
    gz.synthesize("first/data", nodes=100, edges=500, dim=4)
    assert "was not made by the quickstart; choose another folder" in run("quickstart", "first").stderr
    assert gz.Dataset("first/data").num_nodes == 100
