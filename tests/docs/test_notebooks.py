"""The notebooks of examples/ run from top to bottom in an empty folder, and are stored with their outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # on a busy machine torch's threads wait for one another
    book = nbformat.read(path, 4)
    nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_there_are_four_with_outputs_and_without_paths_of_a_machine() -> None:
    assert len(NOTEBOOKS) == 4
    for path in NOTEBOOKS:
        text = path.read_text()
        assert sum(bool(cell.get("outputs")) for cell in json.loads(text)["cells"]) >= 3, path.name
        of_a_machine = ("/home/", "/root/", "/tmp/", str(Path(__file__).parents[2]))
        assert not any(folder in text for folder in of_a_machine), path.name
