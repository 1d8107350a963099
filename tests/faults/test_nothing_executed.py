"""Data from outside is never executed: no pickle, no eval, no exec, whatever is opened, compiled or loaded."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from waiting import PATIENCE

import graphzero as gz

ROOT = Path(__file__).resolve().parents[2]

# Code that Python runs to import a module is not data; everything else that is compiled or executed is told.
HOOK = """
import sys
import numpy as np
import graphzero as gz

TELLING = {"exec", "compile", "pickle.find_class", "marshal.loads", "marshal.load", "code.__new__", "os.system",
           "os.exec", "os.posix_spawn", "subprocess.Popen", "ctypes.dlopen"}
seen, armed = [], False

def harmless():
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        if frame.f_code.co_name == "literal_eval":  # NumPy's own headers: parsed as literals, never run
            return True
        frame = frame.f_back
    return False

def hook(event, arguments):
    if armed and event in TELLING and not harmless():
        seen.append((event, str(arguments)[:120]))

sys.addaudithook(hook)
"""


def audited(code: str, *arguments: object, before: str = "") -> list[str]:
    """Run `code` with the hook armed; returns what it told. `before` runs while it is not."""
    program = HOOK + textwrap.dedent(before) + "\narmed = True\n" + textwrap.dedent(code)
    program += "\narmed = False\nfor event in seen: print('SEEN', event)\nprint('done')\n"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, env=env)
    assert done.stdout.endswith("done\n"), (done.stdout[-1000:], done.stderr[-3000:])
    return [line for line in done.stdout.splitlines() if line.startswith("SEEN")]


def test_compiling_opening_sampling_and_verifying(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("src,dst,weight\n0,1,0.5\n1,2,1\n2,0,2\n")
    np.save(tmp_path / "edges.npy", np.array([[0, 1, 2], [1, 2, 0]]))
    np.save(tmp_path / "x.npy", np.ones((3, 4), np.float32))
    code = """
    import os
    os.chdir(sys.argv[1])
    gz.compile_graph("edges.csv", "a.gl")
    gz.compile_graph("edges.npy", "b.gl", direction="both")
    gz.convert_csv_to_gl("edges.csv", "c.gl")
    gz.compile_features("x.npy", "x.gd")
    g, fs = gz.Graph("b.gl"), gz.FeatureStore("x.gd")
    g.sample([0, 1], [2, 2]), g.batch_random_walk([0], 3, p=0.5), g.negative_edges(1, exclude_edges=False)
    fs.gather([0, 2]), fs.get_tensor(), g.info, fs.info, repr(g), repr(fs)
    gz.verify("a.gl")
    """
    assert audited(code, tmp_path) == []


def test_loading_batches(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    before = """
    import torch
    import os
    os.chdir(sys.argv[1])
    gz.compile_graph(np.random.default_rng(0).integers(0, 50, (2, 300)), "g.gl", num_nodes=50)
    gz.compile_features(np.ones((50, 4), np.float32), "x.gd")
    """
    code = """
    loader = gz.NeighborLoader(gz.Graph("g.gl"), gz.FeatureStore("x.gd"), fanouts=[3, 2], batch_size=10, memory="64MB")
    for batch in loader:
        batch.x, batch.edge_index
    loader.stats()
    """
    assert audited(code, tmp_path, before=before) == []


def test_datasets(tmp_path: Path) -> None:
    before = f"""
    import os
    os.chdir({str(tmp_path)!r})
    gz.synthesize("ds", nodes=500, edges=2000, dim=8, seed=1)
    """
    code = """
    ds = gz.Dataset("ds")
    ds.graph.sample([0], [2]), ds.features["x"].gather([1]), ds.labels[:3], ds.splits["train"][:3]
    repr(ds)
    """
    assert audited(code, before=before) == []


def test_checkpoints(tmp_path: Path) -> None:
    pytest.importorskip("graphzero.train.checkpoint")
    before = f"""
    from graphzero.train.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
    path = {str(tmp_path / "c.npz")!r}
    save_checkpoint(path, Checkpoint({{"w": np.ones(3)}}, {{"epoch": 1}}))
    """
    assert audited("assert load_checkpoint(path).note['epoch'] == 1", before=before) == []


@pytest.mark.parametrize(
    ("what", "event"),
    [
        ("eval('1 + 1')", "compile"),
        ("exec('x = 1')", "exec"),
        ("__import__('pickle').loads(__import__('pickle').dumps(gz.Generator(1)))", "pickle.find_class"),
        ("np.load(sys.argv[1] + '/object.npy', allow_pickle=True)", "pickle.find_class"),
        ("__import__('subprocess').run(['true'])", "subprocess.Popen"),
    ],
)
def test_the_hook_tells_of_each(tmp_path: Path, what: str, event: str) -> None:
    np.save(tmp_path / "object.npy", np.array([gz_like()], dtype=object), allow_pickle=True)
    assert any(event in line for line in audited(what, tmp_path))


def gz_like() -> object:
    """Something that only unpickling can bring back."""
    return Path("/nowhere")


# -- files made to be executed ---------------------------------------------------------------------------------------


class Bomb:
    """Writes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.system, (f"touch {self.path}",))


@pytest.fixture
def bomb(tmp_path: Path) -> Path:
    np.save(tmp_path / "bomb.npy", np.array([Bomb(tmp_path / "exploded")], dtype=object), allow_pickle=True)
    return tmp_path / "bomb.npy"


def test_a_pickled_array_is_refused_unopened(bomb: Path, tmp_path: Path) -> None:
    for compile_it in (
        lambda: gz.compile_graph(bomb, tmp_path / "g.gl"),
        lambda: gz.compile_features(bomb, tmp_path / "x.gd"),
        lambda: gz.Graph(bomb),
        lambda: gz.FeatureStore(bomb),
    ):
        with pytest.raises((gz.GraphZeroError, ValueError)):
            compile_it()
    assert not (tmp_path / "exploded").exists()


def test_the_bomb_would_go_off(bomb: Path, tmp_path: Path) -> None:
    np.load(bomb, allow_pickle=True)
    assert (tmp_path / "exploded").exists()


def test_a_checkpoint_with_a_pickle_inside_is_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    load_checkpoint = pytest.importorskip("graphzero.train.checkpoint").load_checkpoint
    arrays = {"w": np.array([Bomb(tmp_path / "exploded")], dtype=object)}
    np.savez(tmp_path / "c.npz", allow_pickle=True, **arrays)
    torch.save({"w": Bomb(tmp_path / "exploded")}, tmp_path / "c.pt")
    for name in ("c.npz", "c.pt"):
        with pytest.raises(gz.GraphZeroError):
            load_checkpoint(tmp_path / name)
    assert not (tmp_path / "exploded").exists()


def test_the_package_names_none_of_them() -> None:
    # By reading: the words do not stand in the source, but where torch is told to load tensors and nothing else.
    words = ("pickle.load", "pickle.Unpickler", "torch.load(", "allow_pickle=True", "marshal.", "yaml.load(", "shelve.")
    for file in (ROOT / "graphzero").rglob("*.py"):
        lines = file.read_text().splitlines()
        text = "\n".join(line for line in lines if not ("torch.load(" in line and "weights_only=True" in line))
        assert not [word for word in words if word in text], file
