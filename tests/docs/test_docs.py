"""The documentation is true: every Python example runs, every link leads somewhere, every public name is in the API."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import graphzero as gz

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


def examples(page: Path) -> list[tuple[int, str, str]]:
    """The line number, language and text of each fenced block of Python or of commands."""
    text = page.read_text()
    found = re.finditer(r"^```(python|console)\n(.*?)^```$", text, flags=re.M | re.S)
    return [(text[: match.start(2)].count("\n"), match.group(1), match.group(2)) for match in found]


def commands(block: str) -> list[list[str]]:
    """The words of each `$ graphzero ...` line."""
    return [shlex.split(line[2:], comments=True) for line in block.splitlines() if line.startswith("$ graphzero ")]


# Pages whose commands run as they are printed, between their Python blocks. The others name data of the reader.
GUIDES = ("appends", "import", "reorder", "stats")
WITH_COMMANDS = ("docs/tasks/", *(f"docs/guides/{name}.md" for name in GUIDES))


def runs(page: Path) -> bool:
    """Whether a page has something to run."""
    languages = {language for _, language, _ in examples(page)}
    return "python" in languages or ("console" in languages and str(page.relative_to(ROOT)).startswith(WITH_COMMANDS))


@pytest.mark.parametrize("page", list(filter(runs, PAGES)), ids=lambda p: str(p.relative_to(ROOT)))
def test_the_examples_of_a_page_run_in_order_in_an_empty_folder(page, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    typer_testing = pytest.importorskip("typer.testing")
    from graphzero.cli.app import app

    torch.set_num_threads(1)  # on a busy machine torch's threads wait for one another
    monkeypatch.chdir(tmp_path)
    with_commands = str(page.relative_to(ROOT)).startswith(WITH_COMMANDS)
    namespace: dict[str, object] = {"__name__": "example"}
    for line, language, code in examples(page):
        if language == "python":
            exec(compile("\n" * line + code, str(page), "exec"), namespace)
            continue
        for words in commands(code) if with_commands else ():
            done = typer_testing.CliRunner().invoke(app, words[1:])
            assert done.exit_code == 0, f"{words}: {done.output}"


def test_the_lines_of_the_readme_print_a_result_and_may_be_repeated(tmp_path, monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    readme = (ROOT / "README.md").read_text()
    (code,) = [code for _, language, code in examples(ROOT / "README.md") if language == "python"]
    for _ in range(2):
        exec(compile(code, "README.md", "exec"), {})
        (line,) = capsys.readouterr().out.splitlines()
        assert float(re.fullmatch(r"last batch: loss ([\d.]+), accuracy \d+%", line)[1]) < 2.7  # ln 16 before training
    assert {"$ make demo", "$ make test"} <= {line.partition("  ")[0] for line in readme.splitlines()}


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
    assert sum(len(examples(page)) for page in PAGES) >= 50


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"], ids=lambda p: p.name)
def test_links_to_files_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            target = re.sub(r"^notebooks/", "../examples/", target)  # copied when the site is built
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def api_pages() -> str:
    return "\n".join(path.read_text() for path in sorted((ROOT / "docs" / "api").glob("*.md")))


def test_every_public_name_is_on_an_api_page():
    page = api_pages()
    names = re.findall(r"^\.\. auto\w+:: (\S+)", page, flags=re.M)
    assert len(names) == len(set(names))
    listed = set(re.findall(r"^\.\. auto\w+:: graphzero\.([\w.]+)", page, flags=re.M))
    errors = {name for name in gz.__all__ if name.endswith("Error")}  # by automodule
    expected = set(gz.__all__) - errors - {"__version__"} | {"errors"}
    for room in ("analytics", "train", "pyg", "ray"):
        module = pytest.importorskip(f"graphzero.{room}")
        expected |= {f"{room}.{name}" for name in module.__all__}
    assert listed == expected


def test_every_public_method_is_on_an_api_page():
    """Members of a base class, such as walks of a graph, are shown only where the page asks for them."""
    page = api_pages()
    for name, options in re.findall(r"^\.\. autoclass:: graphzero\.(\w+)\n((?:   :.*\n)*)", page, flags=re.M):
        kind = getattr(gz, name)
        bases = [base for base in kind.__mro__[1:] if base.__module__.startswith("graphzero")]
        inherited = {member for base in bases for member in vars(base) if not member.startswith("_")}
        assert ":inherited-members:" in options or not inherited - set(vars(kind)), f"{name}: {inherited}"


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
    counters, plan = (ROOT / "docs" / "stats.md").read_text().split("## The plan")
    plan, windows = plan.split("| key of `windows[name]`")
    names = [set(re.findall(r"`(\w+)`", text)) for text in (counters, plan, windows)]
    for keys, listed in zip(
        (stats.keys() - {"plan"}, {*stats["plan"], *stats["plan"]["disk"]}, window), names, strict=True
    ):
        assert set(keys) <= listed


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


@pytest.fixture
def figures(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import figures

    return figures


def test_pages_and_charts_are_drawn_from_the_results(figures):
    """`make figures-draw` changes nothing: no figure was typed by hand, and none is out of date."""
    for path, text in figures.drawn(figures.results()).items():
        assert path.read_text() == text, path


def test_a_new_result_replaces_the_old_one(figures):
    found = figures.results()
    table = {"title": "Out of core: 4.1 GB of features and 0.5 GB of topology in 1500MB, [10, 5]"}
    table["rows"] = [[row, f"{n} ms a batch", ""] for n, row in enumerate(figures.BARS, 7)]
    found["outofcore"] = {**found["outofcore"], "tables": [table], "command": "python benchmarks/x.py"}
    text = figures.drawn(found)[ROOT / "README.md"]
    assert "| train: 4.1 GB of features in 1500 MB of RAM | 9 ms a batch | `np.memmap`: 7 ms a batch |" in text
    assert "by `python benchmarks/x.py`" in figures.page(found)
    assert "4.1 GB of features in 1500 MB" in figures.chart(found["outofcore"], "dark")


def test_readme_is_two_screens_and_every_headline_names_a_result(figures):
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100
    found = figures.results()
    for name, title, row, peer, _ in figures.HEADLINES:
        table = next(t for t in found[name]["tables"] if t["title"].startswith(title))
        for start in filter(None, (row, peer)):
            assert any(what.startswith(start) for what, _, _ in table["rows"]), (name, start)


def test_pictures_of_the_pipeline_are_up_to_date(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "pictures"))
    import pipeline

    for scheme in pipeline.INKS:
        assert (ROOT / "docs" / "pictures" / f"pipeline-{scheme}.svg").read_text() == pipeline.pipeline(scheme)
