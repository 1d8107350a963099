"""The documentation is true: every Python example runs, every link leads somewhere, every public name is in the API."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import graphzero as gz

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.fixture
def data_folder(tmp_path, monkeypatch):
    """A folder with the files that the pages speak of, as the current one."""
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 200, (1500, 2))
    np.savetxt(tmp_path / "edges.csv", edges, "%d", delimiter=",", header="src,dst", comments="")
    rows = rng.standard_normal((200, 8)).astype(np.float32)
    np.save(tmp_path / "features.npy", rows)
    table = np.column_stack([np.arange(200), rows])
    np.savetxt(tmp_path / "features.csv", table, ["%d"] + ["%.6f"] * 8, delimiter=",")
    gz.synthesize(tmp_path / "papers", nodes=1000, edges=5000, dim=8)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def examples(page: Path) -> list[tuple[int, str]]:
    """The line number and text of each fenced Python block."""
    text = page.read_text()
    found = re.finditer(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)
    return [(text[: match.start(1)].count("\n"), match.group(1)) for match in found]


@pytest.mark.parametrize("page", [p for p in PAGES if examples(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_the_examples_of_a_page_run_in_order(page, data_folder):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    torch.set_num_threads(1)  # on a busy machine torch's threads wait for one another
    namespace: dict[str, object] = {"__name__": "example"}
    for line, code in examples(page):
        exec(compile("\n" * line + code, str(page), "exec"), namespace)


def test_the_scripts_for_pyg_users_run_on_pygs_own_loaders(tmp_path):
    """Undoing the page's change of imports gives back scripts of PyG; its sampler runs on the stand-in for pyg-lib."""
    pytest.importorskip("torch_geometric")
    page = (ROOT / "docs" / "guides" / "from-pyg.md").read_text()
    sections = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", page, flags=re.M | re.S))
    changed = {"Node classification": "NeighborLoader", "Link prediction": "LinkNeighborLoader"}
    script = ""
    for name in ("Node classification", "Several types", "Link prediction", "Times"):
        (block,) = re.findall(r"^```python\n(.*?)^```$", sections[name], flags=re.M | re.S)
        if name in changed:
            before, after = re.search(r"```diff\n-(.*)\n\+(.*)\n```", sections[name]).groups()
            assert block.count(after) == 1
            block = block.replace(after, before)
            assert before == f"from torch_geometric.loader import {changed[name]}"
        script += block + "assert batch.num_nodes > 0\n"
    assert "graphzero" not in script
    script += "import pyg_lib\nassert pyg_lib.sampler._mounted\n"  # the stand-in was asked
    (tmp_path / "script.py").write_text(script)
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "pyg_conformance" / "stub")])
    command = [sys.executable, "-W", "ignore", str(tmp_path / "script.py")]
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert not list(tmp_path.glob("graphzero-*"))  # its temporary files are gone


def test_most_pages_have_examples():
    assert sum(len(examples(page)) for page in PAGES) >= 20


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"], ids=lambda p: p.name)
def test_links_to_files_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_public_name_is_in_the_api_page():
    listed = set(re.findall(r":: graphzero\.(\w+)", (ROOT / "docs" / "api.md").read_text()))
    errors = {name for name in gz.__all__ if name.endswith("Error")}  # by automodule
    assert set(gz.__all__) - errors - {"__version__"} == listed - {"errors", "train", "pyg", "ray"}


def test_every_statistic_is_explained(tmp_path):
    """All keys of stats(), of its plan, and of a window that was swept."""
    rng = np.random.default_rng(0)
    gz.compile_graph(rng.integers(0, 6000, (2, 30000)), tmp_path / "g.gl", num_nodes=6000, direction="in")
    gz.compile_features(rng.standard_normal((6000, 1000), dtype=np.float32), tmp_path / "x.gd")
    loader = gz.NeighborLoader(
        gz.Graph(tmp_path / "g.gl"), gz.FeatureStore(tmp_path / "x.gd"), fanouts=[3, 2], seeds=np.arange(192),
        batch_size=16, memory="50MB", cache="on", seed=0,
    )  # fmt: skip
    for _ in loader:
        pass
    stats = loader.stats().to_dict()
    (window,) = stats["plan"]["windows"].values()
    listed = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "stats.md").read_text()))
    assert {*stats, *stats["plan"], *stats["plan"]["disk"], *window} - {"plan"} <= listed


def test_every_command_and_option_is_in_the_command_page():
    typer = pytest.importorskip("typer")
    from graphzero.cli.app import app

    commands = typer.main.get_command(app).commands
    page = (ROOT / "docs" / "cli.md").read_text()
    assert set(commands) == set(re.findall(r"^\| `(\w+)", page, flags=re.M))
    for name, section in re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, flags=re.M | re.S):
        options = {option for one in commands[name].params for option in (*one.opts, *one.secondary_opts)}
        expected = {option for option in options if option.startswith("--")} - {"--json"}
        assert set(re.findall(r"`(--[a-z-]+)", section)) == expected, name


def test_paths_in_pages_for_contributors_exist():
    for page in ("CONTRIBUTING.md", "docs/architecture.md"):
        for path in re.findall(r"\b(?:core|graphzero|tests|docs)/[\w./-]*\w", (ROOT / page).read_text()):
            assert (ROOT / path).exists(), f"{page}: {path}"


def test_every_public_name_has_a_docstring():
    for name in set(gz.__all__) - {"__version__"}:
        thing = getattr(gz, name)
        assert thing.__doc__, name
        for member, value in vars(thing).items() if isinstance(thing, type) else ():
            if callable(value) and not member.startswith("_"):
                assert value.__doc__, f"{name}.{member}"


def test_the_version_is_the_same_everywhere():
    assert f'version = "{gz.__version__}"' in (ROOT / "pyproject.toml").read_text()
    assert f"## {gz.__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_the_figures_can_be_filled_in(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import table

    for path in (table.README, table.MEASURING):
        page = path.read_text()
        assert page.count(table.BEGIN) == page.count(table.END) == 1
    machine = dict.fromkeys(("cpu", "cores", "memory_gb", "kernel", "python", "read_ahead_kb", "date"), 1)
    rows = [("mmap, MADV_RANDOM|x", "9 ms", "3 times"), ("training", "1 ms", "2x c")]
    result = {"program": "outofcore.py", "machine": machine, "tables": [{"title": "Out of core: new", "rows": rows}]}
    measuring = table.MEASURING.read_text()
    filled = table.filled(measuring, [result], readme=False)
    assert "| Out of core: new (benchmarks/outofcore.py, 1) | | |" in filled
    assert "| mmap, MADV_RANDOM/x | 9 ms | 3 times |" in filled
    assert filled.count("| Out of core:") == measuring.count("| Out of core:") == 1  # in place of the old one
    assert filled.count("\n|---|") == measuring.count("\n|---|")  # what was not measured stays
    assert table.filled(measuring, [], readme=False) == measuring
    readme = table.README.read_text()
    assert table.filled(readme, [], readme=True) == readme
    row = "of features in 3 GB of RAM | 1 ms | mmap, MADV_RANDOM|x: 9 ms; 3 times |"
    assert row in table.filled(readme, [result], readme=True)


def test_readme_is_two_screens_and_every_headline_names_a_benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import table

    readme = table.README.read_text()
    assert len(readme.splitlines()) < 150
    block = readme.split(table.BEGIN)[1].split(table.END)[0]
    labels = {line.split("|")[1].strip() for line in block.splitlines() if line.startswith("|")} - {"", "---"}
    assert labels <= set(table.HEADLINES)
    titles = "\n".join(path.read_text() for path in (ROOT / "benchmarks").glob("*.py") if path.name != "table.py")
    for title, _, _ in table.HEADLINES.values():
        assert f'"{title}' in titles, title
