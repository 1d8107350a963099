"""benchmarks/peers.py: how figures of an epoch come from batches, finished or not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import peers

    return peers


def reports(batches: int, *each: tuple[int, float, int]) -> list[dict[str, Any]]:
    """What a program says: the batches of an epoch, then rows, seconds and bytes so far of each batch."""
    return [{"batches": batches, "read": 0}, *({"rows": r, "at": at, "read": read} for r, at, read in each)]


def test_the_second_epoch_counts(peers: Any) -> None:
    found = peers.figures_of(reports(2, (10, 5.0, 100), (10, 9.0, 200), (20, 10.0, 250), (20, 11.0, 280)))
    assert found["whole"]
    assert (found["first_epoch"], found["epoch_seconds"], found["epoch_bytes"]) == (9.0, 2.0, 80)
    assert (found["rows_a_second"], found["rows_a_batch"]) == (20, 20)
    assert peers.shown(found | {"held": 10}, "")[:2] == ("2.0 s", "0 K")


def test_an_unfinished_run_is_extrapolated_from_its_later_half(peers: Any) -> None:
    found = peers.figures_of(reports(100, (10, 5.0, 100), (10, 9.0, 200), (20, 10.0, 250), (20, 11.0, 280)))
    assert not found["whole"]
    assert found["first_epoch"] is None
    assert (found["epoch_seconds"], found["epoch_bytes"]) == (2.0 * 50, 80 * 50)
    assert "from 4 batches" in peers.shown(found | {"held": 10}, "")[-1]
    assert peers.shown({"failed": "exit code 9, 0 batches", "kills": 1}, "")[0] == "failed"


def test_a_program_waits_to_be_measured_after_each_batch() -> None:
    code = "from peer_loaders import deliver; deliver(([3, 4] for _ in range(2)), 2, 100)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input="\n" * 5, cwd=BENCHMARKS, capture_output=True, text=True, check=True)
    first, *batches = map(json.loads, done.stdout.splitlines())
    assert first == {"batches": 2}
    assert [batch["rows"] for batch in batches] == [3, 4, 3, 4]
    assert sorted(batch["at"] for batch in batches) == [batch["at"] for batch in batches]


def test_differences_are_paired(peers: Any) -> None:
    import fewer_bytes

    assert fewer_bytes.difference([0.51, 0.62], [0.5, 0.6]) == "+1.50 ± 0.50 points"
