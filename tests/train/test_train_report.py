"""The report is one page that stands alone, and says what the run did."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from graphzero.machine.monitor import MemoryMonitor, MemorySample
from graphzero.train import EpochRecord, GraphSAGE, TrainOptions, TrainResult
from graphzero.train.report import _INK, _SERIES

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
    assert page.tags.count("svg") == page.tags.count("figure") == 4
    assert "script" not in page.tags
    assert all(link.startswith("#") for link in page.links)  # parts of the page itself
    assert not re.search(r"@import|url\((?!#)", text)
    for stand_in in [_INK, *_SERIES]:
        assert stand_in not in text  # every colour became a variable
    for figure in ("61.5%", "777 MB", "1,234 nodes", "GraphSAGE", "read", "budget 1 GB"):
        assert figure in text
    assert "reading &lt;rows&gt;" in text  # nothing from outside is taken for markup
    assert [p.name for p in (tmp_path / "sub").iterdir()] == ["r.html"]


@pytest.mark.parametrize("epochs", [0, 1])
def test_short_runs_have_a_report_too(tmp_path: Path, epochs: int) -> None:
    short = result(epochs, test_accuracy=None, memory=[MemorySample(0, 1, 1, 5)], progress=[(0.0, 0)])
    short.write_report(tmp_path / "r.html")
    assert "validation accuracy" in (tmp_path / "r.html").read_text()


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
