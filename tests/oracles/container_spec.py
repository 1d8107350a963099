"""A reader and a writer of the container, made from FORMAT.md alone: what the engine is checked against.

Nothing here knows the engine. Section numbers are FORMAT.md's.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np

MAGIC = b"\x89GZF\r\n\x1a\n"
PAGE = 4096
HEADER = struct.Struct("<8sHHIQQQQQQIIIIQ3Q16s")  # (2): 128 bytes
ENTRY = struct.Struct("<32sII2QQQQ16s")  # (3): 96 bytes
BLOCK = 1 << 20
TOPOLOGY, FEATURES = 1, 2
RECTANGULAR, DELTA = 1, 2  # the incompatible flags (2)
CODES = {
    "float64": 1,
    "float32": 2,
    "float16": 3,
    "bfloat16": 4,
    "int64": 5,
    "int32": 6,
    "int16": 7,
    "int8": 8,
    "uint8": 9,
    "bool": 10,
    "uint32": 11,
    "uint64": 12,
}
NAMES = {code: name for name, code in CODES.items()}
WORD = (1 << 64) - 1


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """CRC-32C (4)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def mix(z: int) -> int:
    """The finaliser of digests (4)."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def digest(data: bytes) -> int:
    """The digest of an array's bytes (4)."""
    value = 0x9E3779B97F4A7C15
    for k, at in enumerate(range(0, len(data), BLOCK)):
        value = mix(value ^ ((k << 32) + crc32c(data[at : at + BLOCK])))
    return value


def round_up(value: int, unit: int = PAGE) -> int:
    return -(-value // unit) * unit


@dataclass
class Entry:
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int = 0
    bytes: int = 0
    digest: int = 0


@dataclass
class Header:
    kind: int
    num_nodes: int
    num_edges: int = 0
    direction: int = 0
    properties: int = 0
    major: int = 1
    minor: int = 0
    compatible: int = 0
    incompatible: int = 0
    file_bytes: int = 0
    header_bytes: int = PAGE
    num_targets: int | None = None
    delta: tuple[int, int, int] | None = None  # parent, sequence, next_edge_id (9)
    arrays: list[Entry] = field(default_factory=list)


def header_checksum(header: bytes) -> int:
    """The header's own checksum, its four bytes taken as zero (2)."""
    return crc32c(header[:76] + bytes(4) + header[80:])


def read_header(data: bytes) -> Header:
    """Parse a header, asserting all that FORMAT.md says about it."""
    magic, major, minor, kind, compatible, incompatible, *rest = HEADER.unpack_from(data)
    file_bytes, header_bytes, num_nodes, num_edges, direction, properties, num_arrays, checksum, *rest = rest
    num_targets, *delta, reserved = rest
    assert magic == MAGIC
    rectangular = bool(incompatible & RECTANGULAR)
    is_delta = bool(incompatible & DELTA)
    assert (major, incompatible & ~(RECTANGULAR | DELTA), reserved) == (1, 0, bytes(16))
    assert minor >= max(rectangular, 2 * is_delta)
    assert is_delta or not any(delta)
    if rectangular:
        assert kind == TOPOLOGY
        assert num_targets != num_nodes
        assert not properties & (2 | 8)
    else:
        assert num_targets == 0
    assert header_bytes % PAGE == 0
    assert PAGE <= header_bytes <= 1 << 20
    assert checksum == header_checksum(data[:header_bytes])
    header = Header(
        kind,
        num_nodes,
        num_edges,
        direction,
        properties,
        major,
        minor,
        compatible,
        incompatible,
        file_bytes,
        header_bytes,
        num_targets if rectangular else None,
        tuple(delta) if is_delta else None,
    )
    end = header_bytes
    for i in range(num_arrays):
        name, code, rank, rows, columns, offset, size, array_digest, zeros = ENTRY.unpack_from(data, 128 + 96 * i)
        assert offset == round_up(end)
        assert zeros == bytes(16)
        shape = (rows, columns)[:rank]
        header.arrays.append(Entry(name.rstrip(b"\0").decode(), NAMES[code], shape, offset, size, array_digest))
        end = offset + size
    assert file_bytes == round_up(end)
    assert not any(data[128 + 96 * num_arrays : header_bytes])
    return header


def write_header(header: Header) -> bytes:
    """Serialize a header whose arrays are laid out."""
    fixed = HEADER.pack(
        MAGIC,
        header.major,
        header.minor,
        header.kind,
        header.compatible,
        header.incompatible,
        header.file_bytes,
        header.header_bytes,
        header.num_nodes,
        header.num_edges,
        header.direction,
        header.properties,
        len(header.arrays),
        0,
        header.num_targets or 0,
        *(header.delta or (0, 0, 0)),
        bytes(16),
    )
    table = b"".join(
        ENTRY.pack(
            a.name.encode(),
            CODES[a.dtype],
            len(a.shape),
            *(*a.shape, 0)[:2],
            a.offset,
            a.bytes,
            a.digest,
            bytes(16),
        )
        for a in header.arrays
    )
    raw = (fixed + table).ljust(header.header_bytes, b"\0")
    return raw[:76] + struct.pack("<I", header_checksum(raw)) + raw[80:]


def lay_out(header: Header) -> Header:
    """Give each array its bytes and offset (3)."""
    header.header_bytes = round_up(128 + 96 * len(header.arrays))
    at = header.header_bytes
    for a in header.arrays:
        width = 2 if a.dtype == "bfloat16" else np.dtype(a.dtype).itemsize
        a.offset, a.bytes = at, int(np.prod(a.shape, dtype=object)) * width
        at = round_up(a.offset + a.bytes)
    header.file_bytes = at
    return header


def build(header: Header, arrays: dict[str, np.ndarray], dtypes: dict[str, str] | None = None) -> bytes:
    """The bytes of a whole file. `dtypes` renames what NumPy cannot say: {"x": "bfloat16"}."""
    raw = {name: np.ascontiguousarray(a).tobytes() for name, a in arrays.items()}
    for name, a in arrays.items():
        dtype = (dtypes or {}).get(name, a.dtype.name)
        header.arrays.append(Entry(name, dtype, a.shape, digest=digest(raw[name])))
    lay_out(header)
    out = bytearray(write_header(header))
    for a in header.arrays:
        out += raw[a.name]
        out += bytes(round_up(len(out)) - len(out))
    assert len(out) == header.file_bytes
    return bytes(out)


def csr(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of neighbours as (indptr, indices) (5)."""
    indptr = np.cumsum([0, *map(len, rows)], dtype=np.uint64)
    return indptr, np.array([v for row in rows for v in row], dtype=np.uint32)


def rectangular(num_sources: int, num_targets: int, edges: list[tuple[int, int]], *, direction: int = 2) -> bytes:
    """A `.gl` of edges between two kinds of nodes, numbered apart."""
    arrays = {}
    for bit, side, count in ((1, "out.", num_sources), (2, "in.", num_targets)):
        if direction & bit:
            pairs = edges if bit == 1 else [(v, u) for u, v in edges]
            indptr, indices = csr([sorted(v for u, v in pairs if u == row) for row in range(count)])
            arrays |= {side + "indptr": indptr, side + "indices": indices}
    header = Header(TOPOLOGY, num_sources, len(edges), direction, 1, minor=1, incompatible=RECTANGULAR)
    header.num_targets = num_targets
    return build(header, arrays)


def topology(rows: list[list[int]], *, properties: int = 1, direction: int = 1, **more: np.ndarray) -> bytes:
    """A `.gl` with these rows, out (1), in (2) or both ways (3, the same rows); `more` are arrays such as weights."""
    indptr, indices = csr(rows)
    arrays = {}
    for bit, side in ((1, "out."), (2, "in.")):
        if direction & bit:
            arrays |= {side + "indptr": indptr, side + "indices": indices}
            arrays |= {side + name: a for name, a in more.items()}
    return build(Header(TOPOLOGY, len(rows), len(indices), direction, properties), arrays)


def features(dtypes: dict[str, str] | None = None, **arrays: np.ndarray) -> bytes:
    """A `.gd` with these arrays."""
    return build(Header(FEATURES, len(next(iter(arrays.values())))), arrays, dtypes)


def rows_with_deltas(files: list[bytes], side: str) -> list[list[int]]:
    """The rows of a topology and its deltas, oldest first (9)."""
    headers = [read_header(data) for data in files]
    for i, header in enumerate(headers[1:], 1):
        before = headers[i - 1]
        checksum = struct.unpack_from("<I", files[i - 1], 76)[0]
        assert header.delta is not None
        assert header.delta[:2] == ((before.file_bytes // PAGE << 32) + checksum, i)

    def array(number: int, name: str) -> np.ndarray:
        entry = next(a for a in headers[number].arrays if a.name == f"{side}.{name}")
        return np.frombuffer(files[number], entry.dtype, entry.shape[0], entry.offset)

    indptr, found = array(0, "indptr"), {}
    end = 0
    for number in range(len(files)):
        start = round_up(end, 1024) if number else 0
        ids = array(number, "indices")
        end = start + len(ids)
        found |= {start + k: int(v) for k, v in enumerate(ids)}
    index, table = array(len(files) - 1, "rows.index"), array(len(files) - 1, "rows.table").reshape(-1, 4)
    count = headers[-1].num_nodes if side == "out" else headers[-1].num_targets or headers[-1].num_nodes
    rows, place, shift, at = [], 0, 0, 0
    for u in range(count):
        if u % 64 == 0:
            assert index[u // 64 * 2 + 1] == at
        if index[u // 64 * 2] >> np.uint64(u % 64) & np.uint64(1):
            begin, stop, said, shift = map(int, table[at])
            assert said == place
            at += 1
        else:
            begin, stop = map(int, indptr[u : u + 2])
            assert begin + shift & WORD == place
        rows.append([found[p] for p in range(begin, stop)])
        place += stop - begin
    assert place == headers[-1].num_edges
    return rows


def legacy_topology(rows: list[list[int]], weights: list[float] | None = None) -> bytes:
    """A `.gl` as GraphZero 0.2 wrote it (8)."""
    indptr, indices = (a.astype(np.uint64).tobytes() for a in csr(rows))
    at = 64 + round_up(len(indptr), 64)
    fields = (
        8388354976772092519,
        len(indptr),
        len(indices),
        64,
        at,
        len(rows),
        len(indices) // 8,
        int(weights is not None),
    )
    out = (struct.pack("<8Q", *fields) + indptr).ljust(at, b"\0") + indices
    if weights is not None:
        out = out.ljust(round_up(len(out), 64), b"\0") + np.array(weights, np.float32).tobytes()
    return out


def legacy_features(x: np.ndarray) -> bytes:
    """A `.gd` as GraphZero 0.2 wrote it (8)."""
    code = ["int32", "int64", "float32", "float64"].index(x.dtype.name)
    return b"GZDATA26" + struct.pack("<IiQQ", 0, code, *x.shape) + x.tobytes()
