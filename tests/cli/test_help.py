"""What helps at the prompt: examples, completion, names that were probably meant, signs of life."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")

from typer.main import get_command
from typer.testing import CliRunner

import graphzero as gz
from graphzero.cli import terminal
from graphzero.cli.app import app

COMMANDS: Any = get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_examples_that_parse(name: str) -> None:
    head, *examples = COMMANDS[name].epilog.split("\n\n")
    assert head == "Examples:"
    assert examples
    for example in examples:
        program, command, *words = shlex.split(example)
        assert (program, command) == ("graphzero", name)
        COMMANDS[name].make_context(name, words)  # raises for an unknown option or a value that does not parse


def test_completion_is_on() -> None:
    root = str(Path(gz.__file__).parents[1])
    asked = {"_GRAPHZERO_COMPLETE": "complete_bash", "COMP_WORDS": "graphzero pre", "COMP_CWORD": "1"}
    code = "from graphzero.cli import main; main()"
    env = {**os.environ, "PYTHONPATH": root, **asked}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["predict"]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("help")
    gz.synthesize(folder / "toy", nodes=200, edges=1000, dim=4, classes=2)
    (folder / "edges.csv").write_text("source,target,cost\n0,1,2\n1,2,3\n")
    return folder


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("trian toy", "'train'"),
        ("compile edges.csv g.gl --columns sorce,target", "'source'"),
        ("compile edges.csv g.gl --weights csot", "'cost'"),
        ("reorder toy other --split trian", "'train'"),
        ("reorder toy other --by degre", "'degree'"),
        ("synth other --preset arxv", "'arxiv'"),
        ("compile x.npy x.gd --dtype flaot16", "'float16'"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_one_meant(
    here: Path, monkeypatch: pytest.MonkeyPatch, line: str, meant: str
) -> None:
    monkeypatch.chdir(here)
    np.save("x.npy", np.eye(3, dtype=np.float32))
    result: Any = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == 2, result.output
    assert meant in result.output.lower().partition("did you mean")[2]


def test_a_misspelt_option_is_answered_with_those_that_are_close() -> None:
    assert "--epochs" in CliRunner().invoke(app, ["train", "toy", "--epoch", "3"]).output


def test_types_relations_splits_and_features_are_suggested(tmp_path: Path) -> None:
    ds = gz.synthesize(tmp_path / "mag", preset="mag", scale=0.0005, dim=4)
    with pytest.raises(KeyError, match=r"no node type 'papr'.*; did you mean 'paper'\?"):
        ds.ids["papr"]
    with pytest.raises(KeyError, match=r"did you mean \('author', 'writes', 'paper'\)\?"):
        ds.edges["author", "write", "paper"]
    with pytest.raises(KeyError, match=r"no split 'trian'.*; did you mean 'train'\?"):
        ds.nodes["paper"].splits["trian"]
    with pytest.raises(ValueError, match=r"no node type 'autor'.*; did you mean 'author'\?"):
        ds.hetero.sample({"autor": [0]}, [2])


def test_a_command_without_progress_shows_that_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with terminal.heartbeat("predict", every=0.001):
        while not stream.getvalue():
            time.sleep(0.001)
    assert stream.getvalue().startswith("predict: running for ")
    ended = stream.getvalue()
    time.sleep(0.01)
    assert stream.getvalue() == ended
