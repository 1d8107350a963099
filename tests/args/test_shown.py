"""What notebooks show: tables of objects, safe for any name, and one progress bar."""

from __future__ import annotations

import html
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import graphzero as gz
from graphzero.args.progress import NotebookBar, Reporting, in_notebook

HOSTILE = "<img src=x onerror=alert(1)>"


def tags(page: str) -> set[str]:
    found: set[str] = set()
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: found.add(tag)  # type: ignore[method-assign]
    parser.feed(page)
    return found


@pytest.fixture
def ds(tmp_path: Path) -> gz.Dataset:
    rng = np.random.default_rng(0)
    return gz.Dataset.create(
        tmp_path / "ds", rng.integers(0, 50, (2, 300)), direction="both", edge_ids=True,
        features=rng.random((50, 4), "float32"), labels=np.arange(50) % 3, splits={"train": np.arange(20)},
        name=HOSTILE,
    )  # fmt: skip


def test_objects_are_tables_in_notebooks(ds: gz.Dataset, tmp_path: Path) -> None:
    loader = gz.NeighborLoader(ds, split="train", fanouts=[3], batch_size=8, memory="64MB")
    batch = next(iter(loader))
    shop = gz.Dataset.create(
        tmp_path / "shop",
        graphs={("user", "buys", "item"): np.array([[0, 1], [0, 0]])},
        num_nodes={"user": 2, "item": 1},
    )
    typed = next(iter(gz.NeighborLoader(shop, seeds=("item", [0]), fanouts=[2], batch_size=1, memory="64MB")))
    report = gz.compile_graph(np.array([[0, 1], [1, 0]]), tmp_path / "g.gl")
    wanted = {
        "by source and by target": ds.graph, "[50, 4]": ds.features["x"], "3 classes": ds, "train 20": ds,
        "user buys item": shop, "2 edges": shop.hetero, "num_sampled_nodes": batch, "int64": typed,
        "you waited": loader.stats(), "anonymous": gz.memory_report(), "source edges": report,
        "checksummed": gz.verify(tmp_path / "g.gl"),
    }  # fmt: skip
    for text, thing in wanted.items():
        page = thing._repr_html_()
        assert text in page, thing
        assert tags(page) <= {"div", "table", "thead", "tbody", "tr", "th", "td", "br"}
        assert not re.search(r"color:|background:(?!none)", page)  # the theme's own colours, light or dark
    assert html.escape(HOSTILE) in ds._repr_html_()


class Display:
    """Stands in for IPython, as a notebook kernel has it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown: list[str] = []
        display = SimpleNamespace(HTML=str, display=self.display)
        ipython = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()), display=display)
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def display(self, content: str, display_id: bool) -> Display:
        self.shown.append(content)
        return self

    def update(self, content: str) -> None:
        self.shown.append(content)


def test_progress_is_a_bar_in_a_notebook_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not in_notebook()
    notebook = Display(monkeypatch)
    with Reporting(None, "rows") as show:
        assert isinstance(show, NotebookBar)
        show(HOSTILE, 1, 4)
        show(HOSTILE, 4, 4)
    assert ['value="0.2500"' in notebook.shown[0], 'value="1.0000"' in notebook.shown[1]] == [True, True]
    assert tags("".join(notebook.shown)) == {"progress"}
    assert notebook.shown[-1] == ""


def test_fit_shows_its_progress_in_a_notebook(
    ds: gz.Dataset, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    from graphzero.train import Trainer, TrainOptions

    splits = {"train": np.arange(20), "valid": np.arange(20, 30)}
    x = ds.features["x"]
    data = gz.Dataset.create(Path(ds.path) / "more", ds.graph, features=x, labels=ds.labels, splits=splits)
    options = TrainOptions(fanouts=[2], hidden=4, batch_size=10, epochs=2, memory="64MB", device="cpu")
    Trainer(data, options).fit()
    assert capsys.readouterr().out == ""  # neither a terminal nor a notebook
    notebook = Display(monkeypatch)
    Trainer(data, options).fit()
    assert re.findall(r"^epoch +\d", capsys.readouterr().out, flags=re.M) == ["epoch   1", "epoch   2"]
    assert "epoch 1, loss " in "".join(notebook.shown)
    assert notebook.shown[-1] == ""
