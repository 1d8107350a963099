"""The command line: what is printed, as text and JSON, and how commands end."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner
from waiting import PATIENCE, wait_until

import graphzero as gz
from graphzero.args.progress import Lines, Reporting, renderer
from graphzero.cli import terminal
from graphzero.cli.app import app

ROOT = Path(__file__).parents[2]


def run(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def run_process(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
    command = [sys.executable, *options.pop("python", ["-m", "graphzero"]), *map(str, words)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False, **options)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "toy"
    gz.synthesize(folder, nodes=500, edges=4000, dim=8, classes=4)
    return folder


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    path = tmp_path / "edges.csv"
    path.write_text("0,1\n1,2\n2,0\n2,0\n2,2\n")
    return path


# -- synth ------------------------------------------------------------------------------------------------------------


def test_synth_makes_a_dataset_and_says_so(tmp_path: Path) -> None:
    result = run("synth", tmp_path / "s", "--nodes", 300, "--edges", 2000, "--dim", 4, "--classes", 3)
    assert result.exit_code == 0, result.output
    assert "300, 3 classes" in result.output
    assert "2,000 stored" in result.output
    assert gz.Dataset(tmp_path / "s").num_classes == 3


def test_synth_as_json(tmp_path: Path) -> None:
    result = run("synth", tmp_path / "s", "--preset", "arxiv", "--scale", 0.005, "--dtype", "float16", "--json")
    report = json.loads(result.stdout)
    assert report["nodes"]["node"]["count"] == 847
    assert report["about"]["preset"] == "arxiv"
    assert report["seconds"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--nodes", 10), "nodes and edges are required"),
        (("--nodes", 10, "--edges", 10, "--classes", 20), "classes is 20, expected 1 to 10"),
        (("--preset", "cora"), "preset is 'cora'"),
        (("--nodes", 100, "--edges", 10, "--memory", "lots"), "memory is 'lots'"),
        (("--nodes", "many"), "Invalid value"),
        (("--colour",), "No such option"),
    ],
)
def test_synth_refuses_what_cannot_be(tmp_path: Path, options: tuple[object, ...], message: str) -> None:
    result = run("synth", tmp_path / "s", *options)
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "s").exists()


def test_synth_does_not_replace_a_dataset_unless_asked(toy: Path, tmp_path: Path) -> None:
    result = run("synth", toy, "--nodes", 100, "--edges", 10)
    assert result.exit_code == 1
    assert f"graphzero: error: {toy}: dataset already exists" in result.stderr
    options = ("--nodes", 100, "--edges", 10, "--dim", 2)
    assert run("synth", tmp_path / "s", *options).exit_code == 0
    assert run("synth", tmp_path / "s", *options, "--overwrite").exit_code == 0


def test_ctrl_c_is_prompt_and_leaves_nothing(spawn, tmp_path: Path) -> None:
    words = ("synth", tmp_path / "s", "--nodes", 50_000_000, "--edges", 2_000_000_000)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = spawn([sys.executable, "-m", "graphzero", *map(str, words)], env=env, stderr=subprocess.PIPE)
    assert wait_until(lambda: process.poll() is not None or any((tmp_path / "s").glob("**/*")))
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=PATIENCE)[1] == "graphzero: interrupted\n"
    assert process.returncode == 130
    assert not (tmp_path / "s").exists()


# -- compile ----------------------------------------------------------------------------------------------------------


def test_compile_edges(edges: Path, tmp_path: Path) -> None:
    result = run("compile", edges, tmp_path / "g.gl", "--undirected", "--dedup", "--no-self-loops", "--num-nodes", 5)
    assert result.exit_code == 0, result.output
    graph = gz.Graph(tmp_path / "g.gl")
    assert (graph.num_nodes, graph.num_edges) == (5, 6)


def test_compile_edges_as_json(edges: Path, tmp_path: Path) -> None:
    report = json.loads(run("compile", edges, tmp_path / "g.gl", "--json").stdout)
    assert report["nodes"] == 3
    assert report["edges"] == 5


def test_compile_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(4, dtype=np.float32))
    result = run("compile", tmp_path / "x.npy", tmp_path / "x.gd", "--dtype", "float16", "--name", "eye")
    assert result.exit_code == 0, result.output
    store = gz.FeatureStore(tmp_path / "x.gd")
    assert (store.name, store.shape, store.dtype) == ("eye", (4, 4), np.float16)


def test_compile_picks_columns(tmp_path: Path) -> None:
    source = tmp_path / "edges.csv"
    source.write_text("from,to,when,cost\n1,2,100,0.5\n2,3,90,2\n")
    picked = ("--columns", "to,from", "--weights", "cost", "--times", "2", "--id-base", 1)
    result = run("compile", source, tmp_path / "g.gl", *picked)
    assert result.exit_code == 0, result.output
    graph = gz.Graph(tmp_path / "g.gl")
    assert graph.get_neighbours(1).tolist() == [0]
    assert graph.get_weights(1).tolist() == [0.5]
    assert graph.get_times(2).tolist() == [90]
    assert run("compile", source, tmp_path / "h.gl", "--weights", "no").exit_code == 0
    assert not gz.Graph(tmp_path / "h.gl").has_weights


def test_compile_tells_the_bad_line(edges: Path, tmp_path: Path) -> None:
    edges.write_text("0,1\n1,two\n")
    result = run("compile", edges, tmp_path / "g.gl")
    assert result.exit_code == 1
    assert result.stderr.startswith("graphzero: error: ")
    assert "line 2" in result.stderr
    assert "two" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "g.gl").exists()
    skipped = run("compile", edges, tmp_path / "g.gl", "--skip-bad-lines", "--json")
    assert skipped.exit_code == 0
    assert gz.Graph(tmp_path / "g.gl").num_edges == 1


@pytest.mark.parametrize(
    ("out", "options", "message"),
    [
        ("g.bin", (), "neither .gl"),
        ("g.gl", ("--dtype", "float16"), "--dtype is for rows (.gd)"),
        ("x.gd", ("--undirected",), "--undirected is for edges (.gl)"),
        ("x.gd", ("--weights", "2"), "--weights is for edges (.gl)"),
        ("g.gl", ("--direction", "up"), "Invalid value"),
    ],
)
def test_compile_refuses_what_does_not_fit(edges: Path, tmp_path: Path, out: str, options: Any, message: str) -> None:
    result = run("compile", edges, tmp_path / out, *options)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    result = run("compile", tmp_path / "none.csv", tmp_path / "g.gl")
    assert result.exit_code == 1
    assert "none.csv" in result.stderr


# -- info and verify --------------------------------------------------------------------------------------------------


def test_info_of_a_dataset(toy: Path) -> None:
    result = run("info", toy)
    assert result.exit_code == 0
    for words in (
        "500, 4 classes",
        "500 x 8 float32",
        "4,000 (in, 8.0 per node)",
        "splits/train.gd",
        "graphzero synth",
    ):
        assert words in result.output
    report = json.loads(run("info", toy, "--json").stdout)
    assert report["nodes"]["node"]["count"] == 500
    assert len(report["files"]) == 6


def test_info_of_files(toy: Path) -> None:
    assert "4,000 (in, 8.0 per node)" in run("info", toy / "graph.gl").output
    assert "float32" in run("info", toy / "features" / "x.gd").output
    report = json.loads(run("info", toy / "graph.gl", "--json").stdout)
    assert report["num_edges"] == 4000
    assert {array["name"] for array in report["arrays"]} >= {"in.indptr", "in.indices"}


def test_verify_a_good_one(toy: Path) -> None:
    result = run("verify", toy)
    assert result.exit_code == 0
    assert f"{toy}: ok (6 files, 7 arrays" in result.output
    report = json.loads(run("verify", toy / "graph.gl", "--json").stdout)
    assert report["ok"]
    assert report["arrays"] == 2


def test_verify_tells_the_first_fault_and_exits_with_1(toy: Path, tmp_path: Path) -> None:
    data = bytearray((toy / "graph.gl").read_bytes())
    data[-1] ^= 0xFF
    path = tmp_path / "bad.gl"
    path.write_bytes(data)
    result = run("verify", path)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"graphzero: error: {path}: ")
    as_json = run("verify", path, "--json")
    assert as_json.exit_code == 1
    report = json.loads(as_json.stdout)
    assert not report["ok"]
    assert str(path) in report["fault"]


def test_info_of_nothing_and_of_a_bad_manifest(tmp_path: Path) -> None:
    assert run("info", tmp_path / "none.gl").exit_code == 1
    assert "not a dataset" in run("info", tmp_path).stderr
    (tmp_path / "dataset.json").write_text("{}")
    result = run("verify", tmp_path)
    assert result.exit_code == 1
    assert "dataset.json: format: found nothing" in result.stderr


# -- doctor -----------------------------------------------------------------------------------------------------------


def test_doctor_measures_and_leaves_nothing(tmp_path: Path) -> None:
    result = run("doctor", tmp_path, "--size", "8MB", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["disk"]["sequential"] > 0
    assert report["disk"]["random_1"] > 0
    assert report["disk"]["random_256"] > 0
    assert all(finding["level"] in ("good", "warning") and finding["text"] for finding in report["findings"])
    assert os.listdir(tmp_path) == []


def test_doctor_says_what_an_epoch_costs(toy: Path) -> None:
    result = run("doctor", toy, "--size", "8MB")
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "Loading toy here, estimated" in said
    assert "an epoch 1 batch of " in said


def test_doctor_of_no_folder(tmp_path: Path) -> None:
    result = run("doctor", tmp_path / "none")
    assert result.exit_code == 1
    assert "not a folder" in result.stderr


# -- the frame --------------------------------------------------------------------------------------------------------


def test_exit_codes_of_the_real_process(toy: Path) -> None:
    assert run_process("--version").stdout == f"graphzero {gz.__version__}\n"
    good = run_process("info", toy / "graph.gl", "--json")
    assert (good.returncode, good.stderr) == (0, "")
    json.loads(good.stdout)
    bad = run_process("info", toy / "none.gl")
    assert (bad.returncode, bad.stdout) == (1, "")
    assert bad.stderr.startswith("graphzero: error: ")
    assert "Traceback" not in bad.stderr
    assert run_process("inform", toy).returncode == 2


@pytest.mark.parametrize("how", ["option", "environment"])
def test_debug_shows_where_an_error_came_from(tmp_path: Path, how: str) -> None:
    words = ["--debug"] if how == "option" else []
    env = {"GRAPHZERO_DEBUG": "1"} if how == "environment" else {}
    result = run_process(*words, "info", tmp_path / "none.gl", env=env)
    assert result.returncode == 1
    assert "Traceback" in result.stderr


def test_without_typer_the_command_says_what_to_install() -> None:
    code = "import sys; sys.modules['typer'] = None; from graphzero.cli import main; main()"
    result = run_process(python=["-c", code])
    assert result.returncode == 1
    assert result.stderr == "graphzero: error: the command line needs typer: pip install 'graphzero[cli]'\n"


def test_importing_graphzero_brings_in_neither_typer_nor_torch() -> None:
    code = "import graphzero, sys; print([m for m in ('typer', 'rich', 'torch', 'matplotlib') if m in sys.modules])"
    assert run_process(python=["-c", code]).stdout == "[]\n"


def test_a_closed_pipe_is_no_traceback(toy: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "graphzero", "info", str(toy)]
    result = subprocess.run(command, env=env, stdout=writer, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
    os.close(writer)
    assert b"Traceback" not in result.stderr


class Screen(io.StringIO):
    """A stream that is a terminal, or not."""

    def __init__(self, tty: bool) -> None:
        super().__init__()
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty


@pytest.mark.parametrize("tty", [True, False])
def test_progress_is_a_bar_on_a_terminal_and_short_work_is_silent_elsewhere(
    tty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen(tty)
    monkeypatch.setattr(sys, "stderr", screen)
    with terminal.progress_bars() as progress:
        progress("reading", 1, 2)
        progress("reading", 2, 2)
        progress("sorting", 0, 0)
    assert ("reading" in screen.getvalue()) == tty
    assert ("100%" in screen.getvalue()) == tty


def test_off_a_terminal_a_line_comes_every_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, now = Screen(False), 1000.0
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with Reporting(True) as progress:
        assert progress is not None
        for second in range(65):
            now = 1000.0 + second
            progress("reading", second * 10_000_000, 2_000_000_000)
    assert screen.getvalue().splitlines() == [
        "reading: 15% of 2 GB, 10 MB/s, 2 min 50 s left",
        "reading: 30% of 2 GB, 10 MB/s, 2 min 20 s left",
    ]


def test_without_rich_a_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert isinstance(renderer("B", Screen(True)), Lines)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0123, "12 ms"), (3.44, "3.4 s"), (125, "2 min 5 s"), (4830, "1 h 20 min")],
)
def test_durations(seconds: float, words: str) -> None:
    assert terminal.duration(seconds) == words


@pytest.mark.parametrize(("count", "words"), [(3, "3"), (1234, "1.23 K"), (999_999, "1 M"), (1.6e9, "1.6 G")])
def test_short_counts(count: float, words: str) -> None:
    assert terminal.short(count) == words
