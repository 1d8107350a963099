"""The report is one page that stands alone, and says what the run did."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

import graphzero as gz
from graphzero.machine.monitor import MemoryMonitor, MemorySample
from graphzero.pages.figure import INK, SERIES
from graphzero.train import EpochRecord, GraphSAGE, Trainer, TrainOptions, TrainResult, report_plots
from graphzero.train.history import read_result
from graphzero.train.report import write_comparison
from graphzero.train.report_plots import tier_rates

STAGES = {"sample": 0.5, "read": 2.0, "copy": 0.5, "compute": 3.0, "wait": 0.2}


def result(epochs: int = 3, **changes: object) -> TrainResult:
    records = [
        EpochRecord(
            epoch=n,
            loss=2.0 / (n + 1),
            train_accuracy=0.5 + 0.1 * n,
            val_accuracy=0.4 + 0.1 * n,
            batches=10,
            seeds=1000,
            seconds=3.2,
            eval_seconds=0.5,
            stages=STAGES,
            bytes_read=10**9,
            bytes_useful=10**8,
            hit_rate=0.25,
            bottleneck="reading <rows>",
        )
        for n in range(epochs)
    ]
    data = {
        "nodes": 1234,
        "edges": 56789,
        "features": [1234, 8],
        "dtype": "float32",
        "classes": 4,
        "topology_bytes": 10**8,
        "feature_bytes": 10**9,
        "budget": "1 GB",
        "train_seeds": 1000,
    }
    fields = {
        "model": GraphSAGE(8, 4, 4),
        "options": TrainOptions(),
        "epochs": records,
        "best_epoch": epochs - 1,
        "val_accuracy": 0.6,
        "test_accuracy": 0.615,
        "stopped": "finished",
        "seconds": 10.0,
        "peak_anonymous": 777_000_000,
        "data": data,
        "memory": [MemorySample(0.1 * n, 10**8 + n, 10**7, None) for n in range(50)],
        "progress": [(0.25 * n, 100 * n) for n in range(40)],
    }
    return TrainResult(**(fields | changes))  # type: ignore[arg-type]


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [v or "" for k, v in attrs if k in ("src", "href", "xlink:href", "srcset")]


def test_it_stands_alone_and_has_every_plot(tmp_path: Path) -> None:
    result().write_report(tmp_path / "sub" / "r.html")
    text = (tmp_path / "sub" / "r.html").read_text()
    page = Page(text)
    assert page.tags.count("svg") == page.tags.count("figure") == 5
    assert "script" not in page.tags
    assert all(link.startswith("#") for link in page.links)  # parts of the page itself
    assert not re.search(r"@import|url\((?!#)", text)
    for stand_in in [INK, *SERIES]:
        assert stand_in not in text  # every colour became a variable
    for figure in ("61.5%", "777 MB", "1,234 nodes", "GraphSAGE", "read", "budget 1 GB"):
        assert figure in text
    assert "reading &lt;rows&gt;" in text  # nothing from outside is taken for markup
    assert [p.name for p in (tmp_path / "sub").iterdir()] == ["r.html"]


def test_tiers_are_named_with_their_rates() -> None:
    epochs = [dataclasses.replace(e, bytes_useful=3 * 10**9, kept_bytes=10**9, hit_rate=0.5) for e in result().epochs]
    shown = tier_rates(dataclasses.replace(result(), epochs=epochs))
    assert "On the GPU: 25.0% of the bytes of rows" in shown
    assert "From RAM: 37.5%" in shown
    assert "From the disk: 37.5%" in shown
    assert "From RAM: 37.5% of the bytes of rows, 469 MB/s." in shown


def axes_of(draw: Any, *of: Any) -> Any:
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    draw(axes, *of)
    return axes


def test_what_is_far_above_the_process_does_not_flatten_its_memory() -> None:
    memory = [MemorySample(0.1 * n, 250_000_000, 10**7, 5 * 10**9) for n in range(50)]
    wide = result(memory=memory, data={**result().data, "budget": "auto", "budget_bytes": 70_000_000})
    axes = axes_of(report_plots._draw_memory, wide)
    assert [line.get_label() for line in axes.get_lines()] == ["process", "mapped files"]  # no budget was given
    assert axes.get_ylim()[1] < 300
    assert "used up to 5 GB." in report_plots._limits(wide)[1]
    set_ = dataclasses.replace(wide, data={**wide.data, "budget": "300 MB", "budget_bytes": 300_000_000})
    assert "budget of the engine" in [line.get_label() for line in axes_of(report_plots._draw_memory, set_).get_lines()]


@pytest.mark.parametrize(("size", "unit", "height"), [(20_000, "KB", 20), (30_000_000, "MB", 30), (2e9, "GB", 2)])
def test_rows_have_a_unit_of_their_size(size: float, unit: str, height: float) -> None:
    epochs = [dataclasses.replace(e, bytes_read=int(size), bytes_useful=0) for e in result().epochs]
    axes = axes_of(report_plots._draw_tiers, dataclasses.replace(result(), epochs=epochs))
    assert axes.get_ylabel() == unit
    assert max(bar.get_height() for bar in axes.patches) == height


def test_many_epochs_are_lines_and_not_hairlines() -> None:
    assert axes_of(report_plots._draw_stages, result(20)).patches
    many = axes_of(report_plots._draw_stages, result(60))
    assert not many.patches
    assert len(many.get_lines()) == len(STAGES)


def test_a_comparison_has_short_names_and_the_precision_where_it_differs(tmp_path: Path) -> None:
    folder = "/a/folder/with/quite/a/long/name/runs"
    runs = {
        f"{folder}/{n}.npz": result(options=TrainOptions(precision=p)) for n, p in ((1, "bfloat16"), (2, "float32"))
    }
    assert list(report_plots._shortened(runs)) == ["1.npz", "2.npz"]
    ends = report_plots._shortened({f"/{n}/{'x' * 30}/runs/1.npz": result() for n in "ab"})
    assert len(ends) == 2  # no run is lost
    write_comparison(runs, tmp_path / "c.html")
    table = (tmp_path / "c.html").read_text().partition("<h2>")[0]
    assert '<td data-label="precision">bfloat16</td>' in table
    write_comparison({"a": result(), "b": result()}, tmp_path / "c.html")
    assert "precision" not in (tmp_path / "c.html").read_text().partition("<h2>")[0]


def test_the_baseline_is_next_to_the_scores(tmp_path: Path) -> None:
    result(baseline={"test": {"accuracy": 0.59}}).write_report(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "<th>baseline of test</th>" in text
    assert "59.00%" in text
    assert "The baseline always answers the largest class of the training split." in text


@pytest.mark.parametrize("epochs", [0, 1])
def test_short_runs_have_a_report_too(tmp_path: Path, epochs: int) -> None:
    short = result(epochs, test_accuracy=None, memory=[MemorySample(0, 1, 1, 5)], progress=[(0.0, 0)])
    short.write_report(tmp_path / "r.html")
    assert "validation accuracy" in (tmp_path / "r.html").read_text()


HOSTILE = "</title><script>alert(1)</script>"


def test_hostile_names_are_text(tmp_path: Path) -> None:
    facts = {
        "dataset": HOSTILE,
        "model": HOSTILE,
        "command": HOSTILE,
        "versions": {HOSTILE: HOSTILE},
        "date": "2026-01-02",
    }
    confusion = {"split": HOSTILE, "classes": [HOSTILE, "b"], "counts": [[3, 1], [0, 2]]}
    hostile = result(facts=facts, confusion=confusion, metric=HOSTILE, options=TrainOptions(feature=HOSTILE))
    hostile.write_report(tmp_path / "r.html")
    write_comparison({HOSTILE: hostile, "b": result()}, tmp_path / "c.html")
    for name in ("r.html", "c.html"):
        assert not {"script", "img"} & set(Page((tmp_path / name).read_text()).tags)


def test_a_saved_run_is_shown_as_it_was_and_plots_survive_a_resume(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    splits = {"train": np.arange(200), "valid": np.arange(200, 250), "test": np.arange(250, 300)}
    ds = gz.Dataset.create(
        tmp_path / "ds", rng.integers(0, 300, (2, 2000)), direction="in", name="shop",
        features=rng.random((300, 4), "float32"),
        labels=np.arange(300) % 3, splits=splits, about={"classes": ["red", "green", "blue"]},
    )  # fmt: skip
    saved = tmp_path / "run.npz"

    def fit(epochs: int, resume: bool) -> TrainResult:
        options = TrainOptions(fanouts=[2], hidden=4, batch_size=50, epochs=epochs, memory="64MB", device="cpu")
        return Trainer(ds, options, checkpoint=saved).fit(resume=resume)

    first, second = fit(1, resume=False), fit(3, resume=True)
    assert second.memory[: len(first.memory) // 2] == first.memory[: len(first.memory) // 2]
    assert [s.seconds for s in second.memory] == sorted(s.seconds for s in second.memory)
    assert second.progress[: len(first.progress)] == first.progress
    assert np.sum(second.confusion["counts"]) == 50
    back = read_result(saved)
    assert back.to_dict() == second.to_dict()
    back.write_report(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    day = second.facts["date"].split()[0]
    for said in (f"<title>shop · GraphSAGE · {day}</title>", "green", "Confusion matrix, test", "torch ", "RAM"):
        assert said in text
    write_comparison({"a": first, "b": second}, tmp_path / "c.html")
    assert "Options that differ" in (tmp_path / "c.html").read_text()


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="No space"):
        result().write_report(tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_the_monitor_sees_memory_come_and_stays_small() -> None:
    with MemoryMonitor(interval=0.001) as monitor:
        before = monitor.look().anonymous
        held = bytearray(64 << 20)
        held[::4096] = b"x" * len(held[::4096])
        during = monitor.look().anonymous
        del held
    assert during - before > 50 << 20
    assert monitor.samples[-1].seconds >= monitor.samples[0].seconds
    assert len(monitor.samples) <= 2002
