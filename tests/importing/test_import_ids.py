"""Maps of ids: strings and sparse integers numbered by first appearance, for any budget, and looked up both ways."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphzero as gz
from graphzero import _core
from graphzero.sources.keys import keys_of


def first_appearance(keys: list[Any]) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for key in keys:
        found.setdefault(key, len(found))
    return found


def mapped(
    keys: list[Any], folder: Path, memory: int, threads: int = 2, block: int = 500
) -> tuple[list[int], gz.IdMap, int]:
    """Ids of `keys` through the native builder, the map it wrote, and how many keys came late."""
    text = isinstance(keys[0], (str, bytes))
    builder = _core.IdMapBuilder(text=text, memory=memory, threads=threads, spill_folder=str(folder))
    blocks = [builder.map(*keys_of(keys[at : at + block])).copy() for at in range(0, len(keys), block)]
    late = builder.late
    builder.close()
    for ids in blocks:
        builder.resolve(ids)
    builder.write(str(folder / "m.gd"), str(folder / "m.text.gd"), None)
    return np.concatenate(blocks).tolist(), gz.IdMap(folder / "m.gd"), late


def names(rng: np.random.Generator, count: int, distinct: int) -> list[str]:
    return [f"node-{n:x}" + "é" * (n % 20) for n in rng.integers(0, distinct, count)]


@pytest.mark.parametrize("memory", [1 << 10, 1 << 18, 1 << 26])
@pytest.mark.parametrize("kind", ["text", "integers"])
def test_ids_are_first_appearance_whatever_the_budget(tmp_path, kind, memory):
    rng = np.random.default_rng(1)
    keys: list[Any] = names(rng, 30000, 9000)
    if kind == "integers":
        keys = (rng.integers(-(2**62), 2**62, 9000)[rng.integers(0, 9000, 30000)]).tolist()
    ids, map_, late = mapped(keys, tmp_path, memory)
    assert (late == 0) == (memory == 1 << 26)
    want = first_appearance(keys)
    assert ids == [want[key] for key in keys]
    assert len(map_) == len(want)
    assert list(map_.to_original(np.arange(len(want)))) == list(want)
    assert map_.to_dense(list(want)).tolist() == list(range(len(want)))


@settings(max_examples=40, deadline=None)
@given(
    keys=st.lists(st.text(max_size=24), min_size=1, max_size=200),
    memory=st.sampled_from([0, 1 << 24]),
    block=st.integers(1, 60),
)
def test_any_strings_are_mapped_and_found_again(tmp_path_factory, keys, memory, block):
    folder = tmp_path_factory.mktemp("ids")
    ids, map_, _ = mapped(keys, folder, memory, block=block)
    want = first_appearance(keys)
    assert ids == [want[key] for key in keys]
    assert map_.to_original(ids) == keys
    assert map_.to_dense(keys).tolist() == ids


def test_the_hash_never_changes(tmp_path):
    """Files hold it: these values are part of the format."""
    _, map_, _ = mapped(["", "a", "bash", "libc6-dev", "x" * 40], tmp_path, 1 << 24)
    store = gz.FeatureStore(tmp_path / "m.gd", "hash")
    assert store.get_tensor().tolist() == GOLDEN
    assert map_.is_text


GOLDEN = [2776620281495552647, 6071854071107878953, 6157755316362873221, 6510351307916859973, 7832488139220941293]


def test_unknown_ids_are_named_or_marked(tmp_path):
    _, map_, _ = mapped(["bash", "apt"], tmp_path, 1 << 24)
    with pytest.raises(KeyError, match=r"ids\[1\] is 'zsh', which is not in this map"):
        map_.to_dense(["apt", "zsh"])
    assert map_.to_dense(["apt", "zsh"], missing="mark").tolist() == [1, -1]
    assert map_.to_dense([]).tolist() == []
    with pytest.raises(IndexError, match=r"ids\[0\] = 2 is out of range for 2 nodes"):
        map_.to_original([2])
    with pytest.raises(ValueError, match="the ids of this map are strings"):
        map_.to_dense([7])
    assert pickle.loads(pickle.dumps(map_)).to_original([1]) == ["apt"]


def test_a_damaged_map_raises_and_never_reads_wild(tmp_path):
    mapped([f"n{i}" for i in range(100)], tmp_path, 1 << 24)
    info = {a["name"]: a for a in gz.FeatureStore(tmp_path / "m.gd", "hash").info["arrays"]}
    for array in ("id", "start"):
        damaged = bytearray((tmp_path / "m.gd").read_bytes())
        at, size = info[array]["offset"], 100 * (4 if array == "id" else 8)
        damaged[at : at + size] = b"\x7f" * size
        (tmp_path / "d.gd").write_bytes(damaged)
        (tmp_path / "d.text.gd").write_bytes((tmp_path / "m.text.gd").read_bytes())
        with pytest.raises(gz.FormatError, match=rf"{array}\["):
            gz.IdMap(tmp_path / "d.gd").to_dense(["n5"])


# -- graphs ---------------------------------------------------------------------------------------------------------


def named_edges(graph: gz.Graph, ids: gz.IdMap) -> list[tuple[Any, Any]]:
    rows = [(u, int(v)) for u in range(graph.num_nodes) for v in graph.get_neighbours(u)]
    original = list(ids.to_original(np.arange(len(ids))))
    return sorted((original[u], original[v]) for u, v in rows)


EDGES = [("bash", "libc6"), ("apt", "libc6"), ("apt", "bash"), ("zsh", "libc6")]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("source,target\nbash,libc6\napt,libc6\napt,bash\nzsh,libc6\n", {}),
        ("bash\tlibc6\r\napt\tlibc6\r\napt\tbash\r\n\r\nzsh\tlibc6", {}),
        ("# made by hand\nbash libc6\napt   libc6\napt bash\nzsh libc6\n", {}),
        ('"bash", "libc6"\n"apt",libc6\n apt ,"bash"\nzsh,libc6\n', {}),
        (
            "w,package,needs\n1,bash,libc6\n2,apt,libc6\n3,apt,bash\n4,zsh,libc6\n",
            {"columns": ("package", "needs"), "header": True},
        ),
    ],
)
def test_text_with_names_is_compiled_and_the_map_kept(tmp_path, text, options):
    (tmp_path / "deps.csv").write_text(text)
    report = gz.compile_graph(tmp_path / "deps.csv", tmp_path / "g.gl", ids="map", **options)
    assert report.id_map == str(tmp_path / "g.ids.gd")
    ids = gz.IdMap(report.id_map)
    assert ids.to_original([0, 1, 2, 3]) == ["bash", "libc6", "apt", "zsh"]
    assert named_edges(gz.Graph(tmp_path / "g.gl"), ids) == sorted(EDGES)


def test_quotes_and_hashes_are_part_of_names(tmp_path):
    (tmp_path / "tags.csv").write_text('a,"say ""hi"", you"\n#cats,a\n%x,a\n')
    gz.compile_graph(tmp_path / "tags.csv", tmp_path / "g.gl", ids="map", header=False)
    assert gz.IdMap(tmp_path / "g.ids.gd").to_original([0, 1, 2, 3]) == ["a", 'say "hi", you', "#cats", "%x"]


def test_weights_times_and_edge_ids_follow_mapped_edges(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst,weight,when\nb,c,0.5,7\na,b,1.5,8\n")
    gz.compile_graph(tmp_path / "e.csv", tmp_path / "g.gl", ids="map", weights="weight", times="when", edge_ids=True)
    g = gz.Graph(tmp_path / "g.gl")
    assert [g.get_weights(u).tolist() for u in range(3)] == [[0.5], [], [1.5]]
    assert [g.get_times(u).tolist() for u in range(3)] == [[7], [], [8]]
    assert [g.get_edge_ids(u).tolist() for u in range(3)] == [[0], [], [1]]


def test_a_graph_is_the_same_for_any_budget(tmp_path):
    rng = np.random.default_rng(3)
    pool = rng.integers(0, 2**62, 120_000)
    pairs = pool[rng.integers(0, len(pool), (100_000, 2))]
    np.savetxt(tmp_path / "e.csv", pairs, "%d", delimiter=",")
    found = []
    for memory in ("4MB", "256MB"):
        gz.compile_graph(tmp_path / "e.csv", tmp_path / "g.gl", ids="map", memory=memory, num_threads=2, edge_ids=True)
        found.append([(tmp_path / name).read_bytes() for name in ("g.gl", "g.ids.gd")])
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "dictionary", "parquet", "tuple", "networkx"])
def test_objects_with_names_are_mapped(tmp_path, kind):
    src, dst = [u for u, _ in EDGES], [v for _, v in EDGES]
    source: Any = (np.array([10**12, 5, 5]), np.array([5, 10**12, 7]))
    if kind in ("pandas", "polars"):
        source = pytest.importorskip(kind).DataFrame({"src": src, "dst": dst})
    elif kind == "networkx":
        source = pytest.importorskip("networkx").DiGraph(EDGES)
    elif kind != "tuple":
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet

        source = pa.table({"src": src, "dst": pa.array(dst).dictionary_encode() if kind == "dictionary" else dst})
        if kind == "parquet":
            pyarrow.parquet.write_table(source, tmp_path / "e.parquet")
            source = tmp_path / "e.parquet"
    gz.compile_graph(source, tmp_path / "g.gl", ids="map")
    ids, graph = gz.IdMap(tmp_path / "g.ids.gd"), gz.Graph(tmp_path / "g.gl")
    want = sorted(EDGES) if kind != "tuple" else sorted([(10**12, 5), (5, 10**12), (5, 7)])
    assert named_edges(graph, ids) == want
    if kind != "networkx":
        assert list(ids.to_original([0])) == [want[2][0] if kind == "tuple" else "bash"]


def test_a_dataset_keeps_the_map_and_features_follow_node_ids(tmp_path):
    (tmp_path / "deps.csv").write_text("src,dst\nbash,libc6\nzsh,libc6\n")
    (tmp_path / "names.txt").write_text("libc6\nzsh\nalone\nbash\n")
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    report = gz.import_dataset(
        tmp_path / "deps.csv",
        tmp_path / "out",
        features=x,
        labels=[0, 1, 0, 1],
        ids="map",
        node_ids=tmp_path / "names.txt",
    )
    ds = report.dataset
    assert ds.num_nodes == 4
    assert ds.ids.to_dense(["bash"]).tolist() == [3]
    assert ds.ids["node"].to_original([0, 2]) == ["libc6", "alone"]
    assert ds.graph.get_neighbours(0).tolist() == [1, 3]
    np.testing.assert_array_equal(ds.features["x"].get_tensor(), x)
    ds.verify()
    again = gz.import_dataset(tmp_path / "deps.csv", tmp_path / "out", ids="map", overwrite=True).dataset
    assert again.ids.to_original([0, 1, 2]) == ["bash", "libc6", "zsh"]
    moved = gz.reorder(tmp_path / "out", tmp_path / "moved", by="degree")
    names = ["bash", "libc6", "zsh"]
    assert moved.ids.to_original(moved.ids.to_dense(names)) == names
    assert sorted(moved.graph.get_neighbours(int(moved.ids.to_dense(["libc6"])[0]))) == sorted(
        moved.ids.to_dense(["bash", "zsh"])
    )
    with pytest.raises(ValueError, match="has no id map"):
        gz.import_dataset([(0, 1)], tmp_path / "plain").dataset.ids.to_dense(["a"])


def test_names_in_a_text_are_mapped_without_asking_by_import(tmp_path):
    (tmp_path / "deps.csv").write_text("src,dst\nbash,libc6\n")
    report = gz.import_dataset(tmp_path / "deps.csv", tmp_path / "out")
    assert report.dataset.ids.to_original([0, 1]) == ["bash", "libc6"]
    assert "ids: strings, mapped" in str(report)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("alice,bob\ncarol,dan\n", {}, "may be a header or an edge; pass header=True"),
        ("src,dst\na,b\n,c\n", {}, "line 3: column 'src' is empty, expected a node id"),
        ("src,dst\na,b\nc\n", {}, "line 3: found 1 column, expected 2 separated by ','"),
        ('src,dst\na,"b\n', {}, "line 2: a quoted field does not end on its line"),
        ("src,dst\n1,2\nx,3\n", {"ids": "integers"}, "line 3: found 'x', expected a 64-bit integer"),
        ("src,dst\na,b\n", {"num_nodes": 3}, "cannot be combined with ids='map'"),
        ("src,dst\na,b\n", {"ids": "dense"}, "ids is 'dense', expected None or one of map, text, integers"),
        ("src,dst\na,b\n", {"node_ids": ["a", "b", "a"]}, r"node_ids\[2\]: id 'a' is a duplicate"),
        ("src,dst\na,b\n", {"node_ids": [1, 2]}, "found 'a', expected a 64-bit integer"),
    ],
)
def test_mistakes_are_told_and_leave_nothing(tmp_path, text, options, message):
    (tmp_path / "e.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        gz.compile_graph(tmp_path / "e.csv", tmp_path / "g.gl", **{"ids": "map", **options})
    assert [p.name for p in tmp_path.iterdir()] == ["e.csv"]


def test_features_by_row_need_to_know_whose_rows_they_are(tmp_path):
    (tmp_path / "e.csv").write_text("src,dst\na,b\n")
    with pytest.raises(ValueError, match="node_ids="):
        gz.import_dataset(tmp_path / "e.csv", tmp_path / "out", features=np.eye(2, dtype=np.float32), ids="map")
