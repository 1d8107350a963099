"""FeatureStore.gather: every way gives the bytes that indexing gives, and mistakes are told before any work."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from container_spec import features
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import graphzero as gz
from graphzero import _core

torch = pytest.importorskip("torch")

WAYS = ["auto", "mmap", "pread"] + ([] if _core.uring_refusal() else ["uring"])
DTYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]


def noise(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    raw = np.random.default_rng(seed).integers(0, 256, (*shape, np.dtype(dtype).itemsize), dtype=np.uint8)
    if dtype == "bool":
        raw &= 1
    return raw.reshape(*shape[:-1], -1).view(dtype).reshape(shape)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, np.ndarray]]:
    """One file with an array of every dtype, matrices of odd widths and a vector."""
    arrays = {d: noise((300, 3 + 2 * i), d, i) for i, d in enumerate(DTYPES)}
    arrays["label"] = np.arange(300) * 7
    arrays["b"] = noise((300, 19), "uint16")
    arrays["q"] = noise((300, 33), "int8")
    arrays["q.scale"] = np.linspace(0.01, 2, 33, dtype=np.float32)
    path = tmp_path_factory.mktemp("gather") / "many.gd"
    path.write_bytes(features({"b": "bfloat16"}, **arrays))
    return str(path), arrays


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@given(data=st.data())
def test_every_way_equals_indexing(many: tuple[str, dict[str, np.ndarray]], data: st.DataObject) -> None:
    path, arrays = many
    name = data.draw(st.sampled_from([*DTYPES, "label", "b", "q"]))
    ids = data.draw(hnp.arrays(np.int64, st.integers(0, 400), elements=st.integers(0, 299)))
    fs = gz.FeatureStore(path)
    for io in WAYS:
        assert same(fs.gather(ids, io=io, name=name, num_threads=data.draw(st.integers(1, 3))), arrays[name][ids])


@given(data=st.data())
def test_bad_ids_are_refused_before_work(many: tuple[str, dict[str, np.ndarray]], data: st.DataObject) -> None:
    fs = gz.FeatureStore(many[0], "float32")
    bad = data.draw(st.integers(-(2**63), -1) | st.integers(300, 2**63 - 1))
    ids = np.zeros(5, np.int64)
    ids[data.draw(st.integers(0, 4))] = bad
    out = np.full((5, fs.feature_dim), 7, np.float32)
    for io in WAYS:
        with pytest.raises(IndexError, match="out of range"):
            fs.gather(ids, out=out, io=io)
    assert (out == 7).all()


def test_ids_may_be_anything_that_holds_whole_numbers(many: tuple[str, dict[str, np.ndarray]]) -> None:
    path, arrays = many
    fs = gz.FeatureStore(path, "float32")
    expected = arrays["float32"][[3, 299, 3]]
    for ids in ([3, 299, 3], (3, 299, 3), np.array([3, 299, 3], np.uint16), np.array([3, 299, 3], np.int32)):
        assert same(fs.gather(ids), expected)
    assert fs.gather([]).shape == (0, fs.feature_dim)
    for wrong in ([1.5], [True], "3", [[1, 2]]):
        with pytest.raises((TypeError, ValueError)):
            fs.gather(wrong)


def test_out_is_filled_and_returned(many: tuple[str, dict[str, np.ndarray]]) -> None:
    path, arrays = many
    fs = gz.FeatureStore(path, "float32")
    ids = np.arange(0, 300, 7)
    expected = arrays["float32"][ids]
    out = np.empty_like(expected)
    assert fs.gather(ids, out=out) is out
    assert same(out, expected)
    tensor = torch.empty(expected.shape)
    assert fs.gather(ids, out=tensor) is tensor
    assert same(tensor.numpy(), expected)
    unaligned = np.frombuffer(bytearray(expected.nbytes + 1), np.uint8)[1:].view(np.float32).reshape(expected.shape)
    fs.gather(ids, out=unaligned)
    assert same(unaligned.copy(), expected)


def test_out_that_does_not_fit_is_refused(many: tuple[str, dict[str, np.ndarray]]) -> None:
    fs = gz.FeatureStore(many[0], "float32")
    width = fs.feature_dim
    fixed = np.zeros((2, width), np.float32)
    fixed.flags.writeable = False
    for out, what in [
        (np.zeros((3, width), np.float32), "shape"),
        (np.zeros((2, width), np.float64), "dtype"),
        (np.zeros((width, 2), np.float32).T, "contiguous"),
        (fixed, "writeable"),
        (torch.zeros(2, width, dtype=torch.float16), "dtype"),
        (torch.zeros(width, 2).T, "contiguous"),
        (torch.zeros(2, width, device="meta"), "CPU"),
    ]:
        with pytest.raises(ValueError, match=what):
            fs.gather([0, 1], out=out)
    with pytest.raises(TypeError, match="NumPy array or a torch tensor"):
        fs.gather([0, 1], out=[0])
    with pytest.raises(ValueError, match="cannot be combined"):
        fs.gather([0], out=np.zeros((1, width), np.float32), as_torch=True)


def test_tensors_in_tensors_out(many: tuple[str, dict[str, np.ndarray]]) -> None:
    path, arrays = many
    fs = gz.FeatureStore(path, "float32")
    ids = torch.tensor([5, 1, 5])
    assert isinstance(fs.gather(ids), torch.Tensor)
    assert isinstance(fs.gather([5, 1], as_torch=True), torch.Tensor)
    assert isinstance(fs.gather(ids, as_torch=False), np.ndarray)
    assert same(fs.gather(ids).numpy(), arrays["float32"][[5, 1, 5]])
    b = fs.gather(ids, name="b")
    assert b.dtype == torch.bfloat16
    assert same(b.view(torch.int16).numpy().view(np.uint16), arrays["b"][[5, 1, 5]])
    bf = torch.empty(3, 19, dtype=torch.bfloat16)
    fs.gather(ids, out=bf, name="b")
    assert torch.equal(bf.view(torch.int16), b.view(torch.int16))


def test_conversion_equals_converting_afterwards(many: tuple[str, dict[str, np.ndarray]]) -> None:
    path, arrays = many
    fs = gz.FeatureStore(path)
    ids = np.random.default_rng(1).integers(0, 300, 500)
    for io in WAYS:
        for dtype in ("float32", np.float32, np.dtype("float32"), torch.float32):
            half = fs.gather(ids, dtype=dtype, io=io, name="float16")
            assert half.dtype == np.float32
            np.testing.assert_array_equal(half, arrays["float16"][ids].astype(np.float32))
        b = torch.from_numpy(arrays["b"].view(np.int16)).view(torch.bfloat16)[ids].float().numpy()
        np.testing.assert_array_equal(fs.gather(ids, dtype="float32", io=io, name="b"), b)
        q = arrays["q"][ids].astype(np.float32) * arrays["q.scale"]
        np.testing.assert_array_equal(fs.gather(ids, dtype="float32", io=io, name="q"), q)
        for name in ("int64", "int32", "int16", "int8", "uint8", "bool", "float64"):
            with np.errstate(over="ignore", invalid="ignore"):
                plain = arrays[name][ids].astype(np.float32)
            np.testing.assert_array_equal(fs.gather(ids, dtype="float32", io=io, name=name), plain)
    with pytest.raises(ValueError, match="float16"):
        fs.gather(ids, dtype="float16", name="float32")
    with pytest.raises(ValueError, match="io is"):
        fs.gather(ids, io="fast")
    with pytest.raises(KeyError, match="no feature"):
        fs.gather(ids, name="nothing")


def test_scaled_int8_comes_out_raw_unless_asked(many: tuple[str, dict[str, np.ndarray]]) -> None:
    assert gz.FeatureStore(many[0]).gather([0], name="q").dtype == np.int8


def test_stats_tell_what_was_read(many: tuple[str, dict[str, np.ndarray]]) -> None:
    fs = gz.FeatureStore(many[0], "float32")
    fs.gather(np.arange(300), io="pread")
    stats = fs.stats()
    assert stats["rows"] == 300
    assert stats["bytes_useful"] == 300 * fs.feature_dim * 4
    assert stats["bytes_read"] >= stats["bytes_useful"]
    assert stats["reads"] > 0
    fs.gather([1], io="mmap")
    assert fs.stats()["rows_mapped"] == 1


def test_a_closed_store_says_so(many: tuple[str, dict[str, np.ndarray]]) -> None:
    fs = gz.FeatureStore(many[0])
    rows = fs.gather([1, 2])
    fs.close()
    with pytest.raises(ValueError, match="closed"):
        fs.gather([1])
    assert rows.shape[0] == 2  # results have owners of their own


@pytest.mark.parametrize("io", [w for w in WAYS if w != "mmap"])
def test_a_file_cut_short_is_an_error_and_the_next_gather_works(tmp_path: Path, io: str) -> None:
    x = noise((4000, 128), "float32")
    path = tmp_path / "cut.gd"
    path.write_bytes(features(x=x))
    fs = gz.FeatureStore(path)
    os.truncate(path, 4096 * 10)
    ids = np.arange(4000)
    if io == "auto":  # rows in RAM are gone with the file's end: only reads or the guard can tell
        with pytest.raises(gz.StorageError):
            fs.gather(ids, io=io)
        return
    with pytest.raises(gz.StorageError, match="the file ends") as caught:
        fs.gather(ids, io=io)
    assert caught.value.filename == str(path)
    assert same(fs.gather([0, 5, 71], io=io), x[[0, 5, 71]])


def test_a_replaced_file_stays_what_it_was(tmp_path: Path) -> None:
    old, new = noise((500, 64), "float32", 1), noise((500, 64), "float32", 2)
    path = tmp_path / "x.gd"
    path.write_bytes(features(x=old))
    fs = gz.FeatureStore(path)
    (tmp_path / "y.gd").write_bytes(features(x=new))
    os.replace(tmp_path / "y.gd", path)
    for io in WAYS:
        assert same(fs.gather(np.arange(500), io=io), old)


def test_threads_share_a_store(many: tuple[str, dict[str, np.ndarray]]) -> None:
    path, arrays = many
    fs = gz.FeatureStore(path, "float32")
    wrong: list[int] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for i in range(10):
            ids = random.integers(0, 300, 200)
            if not same(fs.gather(ids, io=WAYS[i % len(WAYS)]), arrays["float32"][ids]):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_gathers(many: tuple[str, dict[str, np.ndarray]]) -> None:
    path, arrays = many
    fs = gz.FeatureStore(path, "float32")
    ids = np.arange(300)
    for io in WAYS:
        fs.gather(ids, io=io)  # rings and threads exist before the fork
        child = os.fork()
        if child == 0:
            ok = same(fs.gather(ids, io=io), arrays["float32"])
            os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert same(fs.gather(ids, io=io), arrays["float32"])


def test_where_rings_are_refused_reads_still_work(many: tuple[str, dict[str, np.ndarray]]) -> None:
    """A seccomp filter as default containers have it: io_uring_setup answers EPERM."""
    if not sys.platform.startswith("linux") or os.uname().machine != "x86_64":
        pytest.skip("the filter is written for x86-64 Linux")
    code = """
import ctypes, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
raw = b"".join(struct.pack("HBBI", *s) for s in steps)
buffer = ctypes.create_string_buffer(raw)
program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(buffer))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.create_string_buffer(program), 0, 0) == 0
import numpy as np
import graphzero as gz
from graphzero import _core
assert "permitted" in _core.uring_refusal(), _core.uring_refusal()
fs = gz.FeatureStore(sys.argv[1], "float32")
ids = np.arange(300)
assert (fs.gather(ids, io="pread").tobytes() == fs.gather(ids, io="mmap").tobytes() == fs.gather(ids).tobytes())
try:
    fs.gather(ids, io="uring")
except gz.StorageError as error:
    assert "io='pread'" in str(error)
else:
    raise SystemExit("a ring was made")
"""
    done = subprocess.run([sys.executable, "-c", code, many[0]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
