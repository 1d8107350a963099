"""Graph and FeatureStore: views that cost nothing, outlive their store and harm nobody; every kind of id and path."""

from __future__ import annotations

import gc
import os
import pickle
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import container_spec as spec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphzero as gz

ROWS = [[1, 2], [], [0, 1, 3], [3]]
X = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture
def graph_path(tmp_path):
    path = tmp_path / "g.gl"
    path.write_bytes(spec.topology(ROWS, weights=np.arange(6, dtype=np.float32)))
    return path


@pytest.fixture
def features_path(tmp_path):
    path = tmp_path / "x.gd"
    path.write_bytes(spec.features(x=X, label=np.array([1, 0, 1, 1], np.int64)))
    return path


# -- what they say ----------------------------------------------------------------------------------------------------


def test_what_a_graph_says(graph_path):
    g = gz.Graph(graph_path)
    assert (g.num_nodes, g.num_edges, g.shape, g.dtype) == (4, 6, (4, 4), np.int32)
    assert (g.has_weights, g.has_times, g.has_edge_ids, g.direction) == (True, False, False, "out")
    assert [g.get_degree(i) for i in range(4)] == [2, 0, 3, 1]
    assert g.degrees().tolist() == [2, 0, 3, 1]
    assert [g.get_neighbours(i).tolist() for i in range(4)] == ROWS
    assert g.get_weights(2).tolist() == [2, 3, 4]
    assert g.path == str(graph_path)
    indptr, indices = g.csr()
    assert indptr.tolist() == [0, 2, 2, 5, 6]
    assert (indptr.dtype, indices.dtype) == (np.int64, np.int32)
    assert indices.tolist() == [1, 2, 0, 1, 3, 3]


def test_what_a_feature_store_says(features_path):
    fs = gz.FeatureStore(features_path)
    assert (fs.num_nodes, fs.feature_dim, fs.shape, fs.dtype, len(fs)) == (4, 3, (4, 3), np.float32, 4)
    assert (fs.name, fs.names, fs.dtype_name) == ("x", ["x", "label"], "float32")
    assert fs.get_data(2).tolist() == X[2].tolist()
    assert fs.get_tensor().tolist() == X.tolist()
    label = fs["label"]
    assert (label.shape, label.feature_dim, label.dtype, label.name) == ((4,), 1, np.int64, "label")
    assert label.get_data(1).tolist() == [0]
    assert label.get_tensor().tolist() == [1, 0, 1, 1]
    with pytest.raises(KeyError, match="no feature 'y'; the file has 'x', 'label'"):
        gz.FeatureStore(features_path, "y")
    with pytest.raises(KeyError, match="no feature 'y'; the file has 'x', 'label'"):
        fs["y"]


def test_reprs_say_what_they_are(graph_path, features_path):
    g, fs = gz.Graph(graph_path), gz.FeatureStore(features_path)
    assert repr(g) == "Graph('g.gl', num_nodes=4, num_edges=6, direction='out', weights, 16.4 KB)"
    assert repr(fs) == "FeatureStore('x.gd', 'x', shape=(4, 3), dtype=float32, also 'label', 12.3 KB)"
    g.close()
    fs.close()
    assert repr(g).endswith("closed)")
    assert repr(fs).endswith("closed)")


@pytest.mark.parametrize("kind", [str, Path, os.fsencode, lambda p: os.path.relpath(p)])
def test_paths_of_every_kind(graph_path, features_path, kind):
    assert gz.Graph(kind(graph_path)).path == str(graph_path)
    assert gz.FeatureStore(kind(features_path)).path == str(features_path)


def test_odd_names_of_files(graph_path):
    for name in ("with space.gl", "dash-ü-日本.gl", "no_suffix"):
        other = graph_path.with_name(name)
        other.write_bytes(graph_path.read_bytes())
        assert gz.Graph(other).num_nodes == 4


# -- what does not open -----------------------------------------------------------------------------------------------


def test_what_is_not_there_or_no_file(tmp_path):
    with pytest.raises(gz.StorageError, match=r"absent\.gl: cannot open: No such file") as caught:
        gz.Graph(tmp_path / "absent.gl")
    assert isinstance(caught.value, OSError)
    assert caught.value.errno == 2
    assert caught.value.filename == str(tmp_path / "absent.gl")
    with pytest.raises(gz.FormatError, match="not a regular file"):
        gz.Graph(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(gz.FormatError, match="not a regular file"):
        gz.Graph(tmp_path / "pipe")
    with pytest.raises(TypeError):
        gz.Graph(7)


@pytest.mark.parametrize("size", [0, 1, 31, 64, 4095, 4096, 8192, 12287])
def test_a_file_that_was_cut_does_not_open(graph_path, size):
    os.truncate(graph_path, size)
    with pytest.raises(gz.FormatError, match=re.escape(str(graph_path))):
        gz.Graph(graph_path)


def test_the_wrong_class_is_told_the_right_one(graph_path, features_path):
    with pytest.raises(gz.FormatError, match=r"holds features \(\.gd\), expected a topology .*FeatureStore"):
        gz.Graph(features_path)
    with pytest.raises(gz.FormatError, match=r"holds a topology \(\.gl\), expected features .*Graph"):
        gz.FeatureStore(graph_path)


def test_an_empty_feature_file_says_so(tmp_path):
    (tmp_path / "x.gd").write_bytes(spec.build(spec.Header(spec.FEATURES, 5), {}))
    with pytest.raises(ValueError, match="holds no features"):
        gz.FeatureStore(tmp_path / "x.gd")


# -- views ------------------------------------------------------------------------------------------------------------


def test_views_share_one_mapping_and_copy_nothing(graph_path, features_path):
    g, fs = gz.Graph(graph_path), gz.FeatureStore(features_path)
    assert np.shares_memory(fs.get_tensor(), fs.get_tensor())
    assert np.shares_memory(fs.get_tensor(), fs.get_data(3))
    assert np.shares_memory(g.csr()[1], g.get_neighbours(2))
    assert fs.get_tensor().ctypes.data % 4096 == 0


def test_views_outlive_their_store(graph_path, features_path):
    g, fs = gz.Graph(graph_path), gz.FeatureStore(features_path)
    x, row, neighbours, label = fs.get_tensor(), fs.get_data(1), g.get_neighbours(2), fs["label"].get_tensor()
    g.close()
    del g, fs
    gc.collect()
    os.remove(graph_path)
    assert x.tolist() == X.tolist()
    assert row.tolist() == X[1].tolist()
    assert neighbours.tolist() == ROWS[2]
    assert label.tolist() == [1, 0, 1, 1]


def test_torch_takes_a_view_without_a_warning_or_a_copy(graph_path, features_path):
    torch = pytest.importorskip("torch")
    fs, g = gz.FeatureStore(features_path), gz.Graph(graph_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.from_numpy(fs.get_tensor())
        row = torch.from_numpy(g.get_neighbours(2))
        assert torch.from_dlpack(fs.get_tensor()).shape == (4, 3)
    assert x.data_ptr() == fs.get_tensor().ctypes.data
    assert x[row.long()].tolist() == X[ROWS[2]].tolist()
    assert x[row].tolist() == X[ROWS[2]].tolist()  # int32 indexes too


def test_a_write_reaches_neither_the_file_nor_the_engine(graph_path, features_path):
    torch = pytest.importorskip("torch")
    files = [graph_path, features_path]
    before = [p.read_bytes() for p in files]
    g, fs = gz.Graph(graph_path), gz.FeatureStore(features_path)
    fs.get_tensor()[:] = -1
    torch.from_numpy(fs.get_data(0)).fill_(-2)
    for array in (g.get_neighbours(2), g.get_weights(2), *g.csr()):
        array[:] = 1000
    assert fs.gather([0, 3]).tolist() == X[[0, 3]].tolist()
    assert fs.gather([0, 3], io="mmap").tolist() == X[[0, 3]].tolist()
    assert g.degrees().tolist() == [2, 0, 3, 1]
    assert g.sample([2], [-1]).node.tolist() == [2, 0, 1, 3]
    assert [p.read_bytes() for p in files] == before
    assert gz.FeatureStore(features_path).get_tensor().tolist() == X.tolist()


def test_nothing_opens_a_file_for_writing(features_path):
    features_path.chmod(0o444)
    fs = gz.FeatureStore(features_path)
    fs.get_tensor()[0, 0] = 5
    modes = [
        re.search(r"flags:\s*0*(\d+)", Path(f"/proc/self/fdinfo/{fd}").read_text()).group(1)
        for fd in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{fd}") and os.readlink(f"/proc/self/fd/{fd}") == str(features_path)
    ]
    assert modes
    assert all(int(mode, 8) & 3 == os.O_RDONLY for mode in modes)


# -- life -------------------------------------------------------------------------------------------------------------


def test_context_managers_close_and_calls_say_so(graph_path, features_path):
    with gz.Graph(graph_path) as g, gz.FeatureStore(features_path) as fs:
        x = fs.get_tensor()
    assert x[3, 2] == 11
    for call in (lambda: g.get_degree(0), lambda: g.degrees(), lambda: g.get_neighbours(0), lambda: g.csr()):
        with pytest.raises(ValueError, match=r"g\.gl: the graph is closed"):
            call()
    for call in (fs.get_tensor, lambda: fs.get_data(0), lambda: fs.gather([0]), lambda: fs["label"]):
        with pytest.raises(ValueError, match=r"x\.gd: the store is closed"):
            call()
    g.close()  # twice is once
    assert g.num_nodes == 4  # what the header said is still known


def test_pickles_as_its_path(graph_path, features_path, monkeypatch):
    monkeypatch.chdir(graph_path.parent)
    g, fs = gz.Graph("g.gl"), gz.FeatureStore("x.gd", "label")
    monkeypatch.chdir("/")
    assert len(pickle.dumps(fs)) < 500
    assert pickle.loads(pickle.dumps(g)).get_neighbours(2).tolist() == ROWS[2]
    again = pickle.loads(pickle.dumps(fs))
    assert (again.name, again.get_tensor().tolist()) == ("label", [1, 0, 1, 1])
    assert pickle.loads(pickle.dumps(gz.FeatureStore(features_path)["label"])).name == "label"


def test_a_replaced_file_stays_what_it_was_for_those_who_have_it(graph_path):
    old = gz.Graph(graph_path)
    view = old.get_neighbours(2)
    for round_ in range(20):
        other = graph_path.with_name("next")
        other.write_bytes(spec.topology([[round_ % 3]] * 3))
        os.replace(other, graph_path)
        assert old.get_neighbours(2).tolist() == view.tolist() == ROWS[2]
        assert gz.Graph(graph_path).get_neighbours(1).tolist() == [round_ % 3]
    assert old.degrees().tolist() == [2, 0, 3, 1]


def test_opening_and_closing_leaks_neither_files_nor_maps(graph_path, features_path):
    def held() -> tuple[int, int]:
        gc.collect()
        return len(os.listdir("/proc/self/fd")), len(Path("/proc/self/maps").read_text().splitlines())

    def cycle(times: int) -> None:
        for _ in range(times):
            g, fs = gz.Graph(graph_path), gz.FeatureStore(features_path)
            g.get_neighbours(0)
            fs["label"].get_tensor()

    cycle(10)
    fds, maps = held()
    cycle(500)
    assert held()[0] == fds
    assert held()[1] <= maps + 5  # the allocator may add one or two of its own


# -- ids --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_ids_of_every_integer_dtype(graph_path, dtype):
    g = gz.Graph(graph_path)
    assert g.degrees(np.array([2, 0, 2], dtype)).tolist() == [3, 2, 3]
    assert g.get_degree(np.dtype(dtype).type(2)) == 3


def test_ids_as_lists_ranges_strided_arrays_and_tensors(graph_path):
    torch = pytest.importorskip("torch")
    g = gz.Graph(graph_path)
    assert g.degrees([]).tolist() == []
    assert g.degrees(range(4)).tolist() == [2, 0, 3, 1]
    assert g.degrees(np.arange(8)[6:2:-2] // 2).tolist() == [1, 3]
    assert g.degrees(torch.tensor([2, 1])).tolist() == [3, 0]
    assert g.get_degree(torch.tensor(2)) == 3


@pytest.mark.parametrize("bad", [-1, 4, 2**31, 2**63 - 1, -(2**63)])
def test_ids_out_of_range_are_index_errors(graph_path, features_path, bad):
    g, fs = gz.Graph(graph_path), gz.FeatureStore(features_path)
    message = rf"{bad} is out of range .* with 4 nodes"
    for call in (g.get_degree, g.get_neighbours, g.get_weights, fs.get_data, lambda i: g.degrees([0, i])):
        with pytest.raises(IndexError, match=message):
            call(bad)


@pytest.mark.parametrize("bad", [1.0, True, "1", None, np.float32(1), [1]])
def test_what_is_no_id_is_a_type_error(graph_path, features_path, bad):
    g, fs = gz.Graph(graph_path), gz.FeatureStore(features_path)
    for call in (g.get_degree, g.get_neighbours, fs.get_data):
        with pytest.raises(TypeError):
            call(bad)


def test_ids_past_64_bits_raise(graph_path):
    with pytest.raises((IndexError, OverflowError, TypeError)):
        gz.Graph(graph_path).get_degree(2**64)


def test_asking_for_what_the_file_lacks(tmp_path):
    (tmp_path / "g.gl").write_bytes(spec.topology(ROWS))
    g = gz.Graph(tmp_path / "g.gl")
    with pytest.raises(ValueError, match=r"no array 'out\.weights'; compile the graph with weights"):
        g.get_weights(0)
    with pytest.raises(ValueError, match=r"direction 'in' is not in the file, which has 'out'"):
        g.get_degree(0, direction="in")
    with pytest.raises(ValueError, match="direction is 'up', expected 'out' or 'in'"):
        g.degrees(direction="up")


@given(
    rows=st.integers(1, 12).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=6).map(sorted), min_size=n, max_size=n)
    ),
    data=st.data(),
)
def test_a_graph_is_its_rows(tmp_path_factory, rows, data):
    path = tmp_path_factory.mktemp("rows") / "g.gl"
    path.write_bytes(spec.topology(rows))
    g = gz.Graph(path)
    ids = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=20))
    assert g.degrees(ids).tolist() == [len(rows[i]) for i in ids]
    assert [g.get_neighbours(i).tolist() for i in ids] == [rows[i] for i in ids]


def test_many_threads_on_one_store(tmp_path):
    rng = np.random.default_rng(1)
    rows = [sorted(rng.integers(0, 3000, rng.integers(0, 8)).tolist()) for _ in range(3000)]
    (tmp_path / "g.gl").write_bytes(spec.topology(rows))
    g = gz.Graph(tmp_path / "g.gl")

    def work(seed: int) -> bool:
        ids = np.random.default_rng(seed).integers(0, 3000, 500)
        same = g.degrees(ids).tolist() == [len(rows[i]) for i in ids]
        return same and all(g.get_neighbours(i).tolist() == rows[i] for i in ids[:50])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(64)))


# -- files of GraphZero 0.1 and 0.2 -----------------------------------------------------------------------------------


def test_an_older_topology_opens(tmp_path):
    (tmp_path / "old.gl").write_bytes(spec.legacy_topology(ROWS))
    (tmp_path / "weighted.gl").write_bytes(spec.legacy_topology(ROWS, [0, 1, 2, 3, 4, 5]))
    g, w = gz.Graph(tmp_path / "old.gl"), gz.Graph(tmp_path / "weighted.gl")
    assert (g.num_nodes, g.num_edges, g.has_weights, w.has_weights) == (4, 6, False, True)
    assert g.info["legacy"]
    assert g.info["version"] == "0.0"
    for u, row in enumerate(ROWS):
        assert g.get_neighbours(u).tolist() == w.get_neighbours(u).tolist() == row
    assert g.get_neighbours(0).dtype == np.int64
    assert w.get_weights(2).tolist() == [2, 3, 4]
    assert g.sample([2], [-1]).node.tolist() == [2, 0, 1, 3]


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_older_features_open(tmp_path, dtype):
    x = np.arange(15).reshape(5, 3).astype(dtype)
    (tmp_path / "old.gd").write_bytes(spec.legacy_features(x))
    fs = gz.FeatureStore(tmp_path / "old.gd")
    assert (fs.shape, fs.dtype, fs.name) == ((5, 3), np.dtype(dtype), "x")
    np.testing.assert_array_equal(fs.get_tensor(), x)
    np.testing.assert_array_equal(fs.gather([4, 0]), x[[4, 0]])
    os.truncate(tmp_path / "old.gd", 32 + x.nbytes - 1)
    with pytest.raises(gz.FormatError, match="does not fit"):
        gz.FeatureStore(tmp_path / "old.gd")


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="no way to empty the page cache of a file")
def test_preload_brings_the_whole_file_into_ram(tmp_path):
    """Files of several huge pages and a bit, so that the last piece is a short one."""
    x = np.random.default_rng(0).random((50_000, 16), np.float32)
    gz.compile_features(x, tmp_path / "x.gd")
    gz.compile_graph(np.random.default_rng(0).integers(0, 50_000, (2, 1_200_000)), tmp_path / "g.gl")
    stores = [gz.FeatureStore(tmp_path / "x.gd"), gz.Graph(tmp_path / "g.gl")]
    phases: set[str] = set()
    for store in stores:
        with open(store.path, "rb") as f:
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        size = os.path.getsize(store.path)
        cached = lambda store=store: {f.path: f.cached_bytes for f in gz.memory_report().files}[store.path]  # noqa: E731
        before = cached()
        store.preload(progress=lambda phase, done, total: phases.add(phase))
        assert before is None or before < size / 2
        assert cached() in (None, size)
    assert phases <= {"reading into RAM"}
    assert stores[0].gather([49_999]).tolist() == x[[49_999]].tolist()
