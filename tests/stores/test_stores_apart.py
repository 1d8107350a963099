"""Stores in processes of their own: memory that does not grow, files cut under a mapping, forks, spawns, handlers."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import container_spec as spec
import numpy as np
import pytest
from waiting import PATIENCE

import graphzero as gz

ROOT = Path(__file__).parents[2]
GIGABYTE = 1 << 30


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh interpreter, where a crash is a return code and a hang is a failure."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=env, check=False)


def passed(code: str, *arguments: object) -> str:
    done = run(code, *arguments)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()


def sparse_features(path: Path, size: int) -> None:
    """A `.gd` of about `size` bytes, all zeros and holes: it takes no room on the disk."""
    header = spec.Header(spec.FEATURES, size // 512, arrays=[spec.Entry("x", "float32", (size // 512, 128))])
    spec.lay_out(header)
    with path.open("wb") as file:
        file.write(spec.write_header(header))
        file.truncate(header.file_bytes)


def sparse_topology(path: Path, size: int) -> None:
    """A `.gl` whose node 0 has size / 4 edges to itself."""
    edges = size // 4
    header = spec.Header(spec.TOPOLOGY, 2, edges, direction=1, properties=1)
    header.arrays = [spec.Entry("out.indptr", "uint64", (3,)), spec.Entry("out.indices", "uint32", (edges,))]
    spec.lay_out(header)
    with path.open("wb") as file:
        file.write(spec.write_header(header) + np.array([0, edges, edges], np.uint64).tobytes())
        file.truncate(header.file_bytes)


MEASURE = """
    import re, sys
    import numpy as np
    import graphzero as gz

    def anonymous():
        return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read()).group(1)) * 1024

    def touch(view):  # 64 MB of it, in place
        flat = view.reshape(-1)
        return int(flat[: (64 << 20) // view.itemsize : 4096 // view.itemsize].max() + flat[-1])

    path = sys.argv[1]
"""


def test_a_gigabyte_of_features_costs_no_memory(tmp_path):
    sparse_features(tmp_path / "x.gd", GIGABYTE)
    code = """
    touch(np.zeros(1 << 20))  # what NumPy takes for itself
    before = anonymous()
    fs = gz.FeatureStore(path)
    view = fs.get_tensor()
    assert view.nbytes == 1 << 30
    assert touch(view) == 0
    assert fs.get_data(fs.num_nodes - 1).shape == (128,)
    print(anonymous() - before)
    """
    assert int(passed(MEASURE + code, tmp_path / "x.gd")) < 1_000_000


def test_a_gigabyte_of_neighbours_costs_no_memory(tmp_path):
    sparse_topology(tmp_path / "g.gl", GIGABYTE)
    code = """
    touch(np.zeros(1 << 20))
    before = anonymous()
    view = gz.Graph(path).get_neighbours(0)
    assert view.nbytes == 1 << 30
    assert touch(view) == 0
    print(anonymous() - before)
    """
    assert int(passed(MEASURE + code, tmp_path / "g.gl")) < 1_000_000


def test_the_measurement_sees_a_copy(tmp_path):
    sparse_features(tmp_path / "x.gd", 1 << 26)
    code = (
        "    before = anonymous()\n    x = gz.FeatureStore(path).get_tensor().copy()\n    print(anonymous() - before)\n"
    )
    assert int(passed(MEASURE + code, tmp_path / "x.gd")) > 60_000_000


# -- a file that is cut while it is mapped ----------------------------------------------------------------------------

CUT = """
    import os, sys, threading
    import numpy as np
    import graphzero as gz

    def raises(call):
        try:
            call()
        except gz.StorageError as error:
            assert "truncated" in str(error), error
            assert error.filename == sys.argv[1]
            return True
        return False
"""


def test_a_store_whose_file_was_cut_raises_and_lives(tmp_path):
    sparse_features(tmp_path / "x.gd", 1 << 22)
    code = """
    fs = gz.FeatureStore(sys.argv[1])
    view = fs.get_tensor()
    os.truncate(sys.argv[1], 8192)
    assert raises(fs.get_tensor)
    assert raises(lambda: fs.get_data(fs.num_nodes - 1))
    assert raises(lambda: fs.gather([fs.num_nodes - 1], io="mmap"))
    assert view[-1].sum() == 0  # a view that was handed out reads zeros
    assert raises(lambda: fs.get_data(0))  # and from then on every call says so
    print("alive")
    """
    assert passed(CUT + code, tmp_path / "x.gd") == "alive"


def test_a_graph_whose_file_was_cut_raises_and_lives(tmp_path):
    sparse_topology(tmp_path / "g.gl", 1 << 22)
    code = """
    g = gz.Graph(sys.argv[1])
    os.truncate(sys.argv[1], 16384)
    assert g.get_degree(0) == 1 << 20  # this page is still there
    assert raises(lambda: g.get_neighbours(0))
    assert raises(g.csr)
    assert raises(lambda: g.degrees([0]))
    print("alive")
    """
    assert passed(CUT + code, tmp_path / "g.gl") == "alive"


def test_a_cut_topology_loses_no_process_while_it_is_sampled(tmp_path):
    nodes = 1 << 18
    rows = spec.Header(spec.TOPOLOGY, nodes, nodes * 4, direction=1, properties=1)
    rows.arrays = [spec.Entry("out.indptr", "uint64", (nodes + 1,)), spec.Entry("out.indices", "uint32", (nodes * 4,))]
    spec.lay_out(rows)
    indices = np.random.default_rng(0).integers(0, nodes, nodes * 4, dtype=np.uint32)
    with (tmp_path / "g.gl").open("wb") as file:
        file.write(spec.write_header(rows))
        file.write(np.arange(0, nodes * 4 + 1, 4, dtype=np.uint64).tobytes())
        file.seek(rows.arrays[1].offset)
        file.write(indices.tobytes())
        file.truncate(rows.file_bytes)
    code = """
    g = gz.Graph(sys.argv[1])
    seeds, started, told = np.arange(2000), threading.Barrier(3), []

    def work():
        started.wait()
        for round_ in range(10_000):
            try:
                g.sample(seeds, [4, 4], seed=round_)
            except (gz.StorageError, gz.FormatError) as error:
                told.append(str(error))
                return

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    started.wait()
    os.truncate(sys.argv[1], 4096)
    for thread in threads:
        thread.join()
    assert len(told) == 2 and any("truncated" in text for text in told), told
    print("alive")
    """
    assert passed(CUT + code, tmp_path / "g.gl") == "alive"


def test_numpy_views_of_a_cut_file_in_two_threads(tmp_path):
    sparse_features(tmp_path / "x.gd", 1 << 26)
    code = """
    fs = gz.FeatureStore(sys.argv[1])
    view, started, sums = fs.get_tensor(), threading.Barrier(3), []

    def work():
        started.wait()
        for _ in range(20):
            sums.append(float(view[:: 8].sum()))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    started.wait()
    os.truncate(sys.argv[1], 4096)
    for thread in threads:
        thread.join()
    assert sums == [0.0] * 40
    assert raises(lambda: fs.get_data(0))
    print("alive")
    """
    assert passed(CUT + code, tmp_path / "x.gd") == "alive"


def test_verify_of_a_file_that_is_cut_meanwhile_raises(tmp_path):
    sparse_features(tmp_path / "x.gd", 1 << 28)
    code = """
    def cut(phase, done, total):
        os.truncate(sys.argv[1], 4096)

    from graphzero import _core
    assert raises(lambda: _core.verify(sys.argv[1], 2, cut))
    print("alive")
    """
    assert passed(CUT + code, tmp_path / "x.gd") == "alive"


# -- signals of others ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("front", ["", "import faulthandler; faulthandler.enable()"])
def test_a_bus_error_that_is_not_ours_still_ends_the_process(tmp_path, front):
    sparse_features(tmp_path / "x.gd", 1 << 20)
    code = f"""
    import mmap, os, sys
    import graphzero as gz
    first = gz.FeatureStore(sys.argv[1])
    {front}
    second = gz.FeatureStore(sys.argv[1])
    with open(sys.argv[1] + ".other", "w+b") as other:
        other.truncate(8192)
        foreign = mmap.mmap(other.fileno(), 8192)
        other.truncate(0)
        print(foreign[5000])
    """
    assert run(code, tmp_path / "x.gd").returncode == -signal.SIGBUS


def test_a_handler_put_in_front_later_is_overtaken_at_the_next_mount(tmp_path):
    sparse_features(tmp_path / "x.gd", 1 << 20)
    code = """
    import faulthandler
    first = gz.FeatureStore(sys.argv[1])
    faulthandler.enable()
    second = gz.FeatureStore(sys.argv[1])
    os.truncate(sys.argv[1], 4096)
    assert raises(lambda: first.get_data(9)) and raises(lambda: second.get_data(9))
    print("alive")
    """
    assert passed(CUT + code, tmp_path / "x.gd") == "alive"


# -- workers ----------------------------------------------------------------------------------------------------------


def use(graph: gz.Graph, features: gz.FeatureStore, ids: np.ndarray, answers) -> None:
    answers.put((graph.degrees().sum(), graph.get_neighbours(3).tolist(), features.gather(ids).sum()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_use_the_stores_of_their_parent(tmp_path, method):
    rng = np.random.default_rng(2)
    rows = [sorted(rng.integers(0, 40_000, 2).tolist()) for _ in range(40_000)]
    (tmp_path / "g.gl").write_bytes(spec.topology(rows))
    (tmp_path / "x.gd").write_bytes(spec.features(x=np.ones((40_000, 2), np.float32)))
    g, fs = gz.Graph(tmp_path / "g.gl"), gz.FeatureStore(tmp_path / "x.gd")
    ids = np.arange(20_000)
    expected = (g.degrees().sum(), g.get_neighbours(3).tolist(), fs.gather(ids).sum())  # the parent's threads have run
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    workers = [context.Process(target=use, args=(g, fs, ids, answers)) for _ in range(2)]
    for worker in workers:
        worker.start()
    assert [answers.get(timeout=PATIENCE) for _ in workers] == [expected] * 2
    for worker in workers:
        worker.join(timeout=PATIENCE)
        assert worker.exitcode == 0


@pytest.mark.parametrize(
    ("call", "lets_in"),
    [
        ("gz.verify(path)", True),
        ("fs.gather(ids, io='pread')", True),
        ("sum(range(10**6))", False),
    ],  # the last: a control
)
def test_other_threads_run_during_long_calls(tmp_path, call, lets_in):
    sparse_features(tmp_path / "x.gd", 1 << 26)
    code = f"""
    path, ids = sys.argv[1], np.arange(1 << 17)
    fs = gz.FeatureStore(path)
    sys.setswitchinterval(1000)  # nobody takes the lock from us: who else runs was let in
    seen = []
    for _ in range(50 if {lets_in} else 3):
        ready, done = threading.Event(), []

        def work():
            ready.set()
            {call}
            done.append(True)

        thread = threading.Thread(target=work)
        thread.start()
        ready.wait()
        seen.append(not done)
        thread.join()
        if any(seen):
            break
    assert any(seen) == {lets_in}
    print("alive")
    """
    assert passed(CUT + code, tmp_path / "x.gd") == "alive"


def test_forking_while_threads_mount_and_sample_never_hangs_the_child(tmp_path):
    (tmp_path / "g.gl").write_bytes(spec.topology([[1, 2], [0], [1]] * 10))
    code = """
    import warnings
    warnings.simplefilter("ignore")  # newer Pythons warn of forks with threads: that is what is tried here
    stop = threading.Event()
    g = gz.Graph(sys.argv[1])

    def work():
        while not stop.is_set():
            gz.Graph(sys.argv[1]).degrees()
            g.sample(np.arange(30), [2, 2])

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(60):
            child = os.fork()
            if child == 0:
                other = gz.Graph(sys.argv[1])
                ok = other.degrees().tolist() == g.degrees().tolist() and len(g.sample([0], [2]).node) > 1
                os._exit(0 if ok else 1)
            status = os.waitpid(child, 0)[1]
            assert status == 0, status
    finally:
        stop.set()
    for thread in threads:
        thread.join()
    print("alive")
    """
    assert passed(CUT + code, tmp_path / "g.gl") == "alive"
