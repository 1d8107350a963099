"""Text files of `id,f1,f2,...` lines as features."""

from __future__ import annotations

import dataclasses
import os
import re
import tempfile
import time
from collections.abc import Callable
from typing import Any

from .. import _core
from ..args.ids import as_threads
from ..args.progress import Callback
from ..compile.reports import FeatureReport
from ..errors import InputError
from .rows import rows_of_file
from .text import is_compressed, sniff, text_blocks

PARSED = ("float64", "float32", "int64", "int32", "int16", "int8", "uint8", "bool")  # what text is parsed into
_FRACTION = re.compile(rb"\d\.|\.\d|\d[eE]|[eE][-+]?\d")


class TextRows:
    """A text file of `id,f1,f2,...` lines: one pass for the ids, one for the values."""

    def __init__(
        self,
        path: str,
        name: str,
        delimiter: str | None,
        header: bool | None,
        id_base: int,
        num_nodes: int | None,
        budget: int,
        threads: int,
        on_error: str,
    ) -> None:
        """Look at the first lines: columns, delimiter, header."""
        self._path, self._name = path, name
        self._dialect = sniff(path, delimiter, header)
        self._id_base, self._num_nodes = id_base, num_nodes
        self._budget, self._threads, self._skip = budget, threads, on_error == "skip"
        self._compressed = is_compressed(path)

    def has_fractions(self) -> bool:
        """Whether int8 means scaled floats: some number is written with a point or an exponent."""
        return any(_FRACTION.search(block) for block, _ in text_blocks(self._path, begin=self._dialect.begin))

    def _options(self, find: int | None = None, num_nodes: int | None = None) -> _core.RowTextOptions:
        return _core.RowTextOptions(
            name=self._path,
            delimiter=self._dialect.delimiter,
            begin=self._dialect.begin,
            lines_before=self._dialect.lines_before,
            id_base=self._id_base,
            id_limit=num_nodes,
            find=find,
            skip_errors=self._skip or find is not None,
            threads=self._threads,
            memory=self._budget,
        )

    def _pass(self, text: _core.RowText) -> dict[str, Any]:
        if self._compressed:
            for block, _ in text_blocks(self._path):
                text.feed(block)
        else:
            text.read_file(self._path)
        return dict(text.finish())

    def count(self) -> int:
        """Return the largest id + 1, by a pass over the ids."""
        return int(self._pass(_core.RowText(self._options(num_nodes=self._num_nodes)))["num_nodes"])

    def compile(self, path: str, dtype: str, callback: Callback | None) -> FeatureReport:
        """Write the rows to `path`."""
        start = time.perf_counter()
        if self._dialect.columns == 1:
            raise InputError(
                f"{self._path}: line {self._dialect.lines_before + 1}: found 1 column, expected id,f1,f2,..."
            )
        columns = max(self._dialect.columns - 1, 1)
        scanned = self._pass(_core.RowText(self._options(num_nodes=self._num_nodes)))
        if scanned["num_nodes"] == 0:
            count = scanned["skipped"]
            skipped = f": all {count} lines were skipped" if count > 1 else ": the only line was skipped" * count
            raise InputError(f"{self._path}: found no rows{skipped}")
        nodes = self._num_nodes if self._num_nodes is not None else int(scanned["num_nodes"])
        if nodes // 8 > self._budget:
            raise InputError(
                f"{self._path}: the largest id is {nodes - 1}, too large for memory={self._budget}; number the nodes "
                "0, 1, 2, ..., as ids='map' does for edges"
            )
        writer = _core.FeatureWriter(path, nodes, [(self._name, dtype, [nodes, columns])], callback)
        try:
            text = _core.RowText(self._options(num_nodes=nodes), writer, 0)
            parsed = self._pass(text)
            if parsed["duplicate"] is not None:
                found = self._pass(_core.RowText(self._options(find=int(parsed["duplicate"]))))["examples"]
                first = found[0].split(": line ")[1].split(":")[0]
                raise InputError(f"{found[1]}, which line {first} has already; expected one row per id")
            written = time.perf_counter()
            size = writer.finish(self._threads)
        finally:
            writer.discard()
        done = time.perf_counter()
        return FeatureReport(
            path=path,
            nodes=nodes,
            arrays={self._name: ((nodes, columns), dtype)},
            bytes=size,
            seconds={"writing": written - start, "publishing": done - written, "total": done - start},
            peak_memory=int(_core.bytes_held()["peak"]),
            lines_skipped=int(parsed["skipped"]),
            rows_missing=nodes - int(parsed["rows"]),
            skipped_examples=list(parsed["examples"]),
        )

    def compile_through_float32(
        self, path: str, dtype: str, callback: Callback | None, compile_rows: Callable[..., FeatureReport]
    ) -> FeatureReport:
        """Compile types that text is not parsed into from float32 rows in a temporary file next to the output."""
        with tempfile.TemporaryDirectory(dir=os.path.dirname(path), prefix=".gzrows-") as folder:
            parsed = self.compile(os.path.join(folder, "rows.gd"), "float32", callback)
            rows = rows_of_file(parsed.path)
            report: FeatureReport = compile_rows(rows, path, dtype, parsed.nodes, self._budget, self._threads, callback)
        return dataclasses.replace(
            report,
            lines_skipped=parsed.lines_skipped,
            rows_missing=parsed.rows_missing,
            skipped_examples=parsed.skipped_examples,
        )


def text_nodes(path: str | os.PathLike[str], id_base: int) -> int:
    """Return how many nodes a text of rows is about: its largest id + 1."""
    return TextRows(os.fspath(path), "x", None, None, id_base, None, 1 << 26, as_threads(None), "raise").count()
