"""Table columns as model inputs: numbers, categories, times and embeddings become one vector per node."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..dataset.columns import MISSING_TIME, Column

__all__ = ["COMBINE", "TableEncoder", "to_tensor_frame"]

COMBINE = ("sum", "attention")
_LARGEST = 10.0  # numbers are clipped to this many standard deviations from the mean
_DAY = 86_400
_TIME_PARTS = 10  # the values that calendar_parts returns per time, including whether it is missing


class TableEncoder(nn.Module):
    """Encodes the columns of each node as a row of `channels` numbers.

    Numbers are normalised by the mean and deviation in their `stats`; a missing number is replaced by a learned vector.
    A category has a learned vector per code and one for missing values. A time is encoded as its year, as month,
    weekday and hour on circles, and, where seeds have times, as its age relative to the seed; a time later than the
    seed's counts as missing. Embeddings are projected. All are summed (weighted by learned attention with
    `combine="attention"`), normalised and passed through a ReLU.

    >>> age = Column("age", "number", "columns_number", 0, {"mean": 40.0, "std": 10.0})
    >>> encoder = TableEncoder([age], channels=8)
    >>> encoder({"columns_number": torch.tensor([[35.0], [float("nan")]])}).shape
    torch.Size([2, 8])
    """

    def __init__(
        self,
        columns: Sequence[Column],
        channels: int,
        *,
        widths: Mapping[str, int] | None = None,
        combine: str = "sum",
        time_scale: float = 1.0,
    ) -> None:
        """Create the weights. `widths` has the number of columns per embedding; `time_scale` is the number of units
        of the seed times per second."""
        super().__init__()
        if not columns:
            raise ValueError("columns is empty, expected at least one column")
        if combine not in COMBINE:
            raise ValueError(f"combine is {combine!r}, expected one of {', '.join(map(repr, COMBINE))}")
        self.columns, self.channels, self.combine, self.time_scale = list(columns), channels, combine, time_scale
        self.widths = dict(widths or {})
        dense, codes = [], []
        for column in self.columns:
            if column.kind in ("category", "multicategory"):
                codes.append(len(column.names) + 1)  # and one for missing values, which comes first
            else:
                dense.append(self._dense_width(column))
        self._dense, self._codes = dense, codes
        self.linear = nn.Linear(max(sum(dense), 1), channels)
        self.codes = nn.Embedding(max(sum(codes), 1), channels)
        nn.init.normal_(self.codes.weight, std=1 / math.sqrt(channels))
        self.query = nn.Parameter(torch.zeros(channels)) if combine == "attention" else None
        self.norm = nn.LayerNorm(channels)

    def _dense_width(self, column: Column) -> int:
        if column.kind == "embedding":
            if column.array not in self.widths:
                raise ValueError(f"widths has no entry for {column.array!r}, expected its number of columns")
            return self.widths[column.array]
        return _TIME_PARTS if column.kind == "time" else 2

    def forward(self, values: Mapping[str, Tensor], seed_time: Tensor | None = None) -> Tensor:
        """Return one row per node. `values` has the arrays by name; `seed_time` the time of each node's seed."""
        dense = [
            self._dense_part(column, values[column.array], seed_time)
            for column in self.columns
            if column.kind not in ("category", "multicategory")
        ]
        codes, start = [], 0
        for column in self.columns:
            if column.kind in ("category", "multicategory"):
                given = values[column.array]
                at = slice(column.column, column.column + 1) if column.kind == "category" else slice(None)
                given = matrix(given)[:, at]
                codes.append(_shifted(given, len(column.names), start))
                start += len(column.names) + 1
        if self.query is None:
            out = self._summed(dense, codes)
        else:
            tokens = torch.stack(self._tokens(dense, codes), dim=1)
            weight = torch.softmax(tokens @ self.query / math.sqrt(self.channels), dim=1)
            out = (tokens * weight.unsqueeze(2)).sum(1) * len(self.columns)
        return functional.relu(self.norm(out))

    def _dense_part(self, column: Column, values: Tensor, seed_time: Tensor | None) -> Tensor:
        if column.kind == "embedding":
            return torch.nan_to_num(matrix(values).float())
        own = matrix(values)[:, column.column]
        if column.kind == "time":
            return calendar_parts(own, column.stats, seed_time, self.time_scale)
        missing = ~torch.isfinite(own)
        mean, std = float(column.stats.get("mean", 0.0)), float(column.stats.get("std", 1.0)) or 1.0
        scaled = ((own.float() - mean) / std).clamp(-_LARGEST, _LARGEST).masked_fill(missing, 0.0)
        return torch.stack([scaled, missing.to(scaled.dtype)], dim=1)

    def _summed(self, dense: list[Tensor], codes: list[Tensor]) -> Tensor:
        out: Tensor = self.linear(torch.cat(dense, dim=1)) if dense else self.linear.bias
        if codes:
            out = out + functional.embedding_bag(torch.cat(codes, dim=1), self.codes.weight, mode="sum")
        return out

    def _tokens(self, dense: list[Tensor], codes: list[Tensor]) -> list[Tensor]:
        """One vector per column and node; without the bias, they add up to `_summed`."""
        weights = torch.split(self.linear.weight, self._dense, dim=1) if dense else ()
        tokens = [part @ weight.T for part, weight in zip(dense, weights, strict=True)]
        tokens += [functional.embedding_bag(part, self.codes.weight, mode="sum") for part in codes]
        return [token + self.linear.bias for token in tokens]


def matrix(values: Tensor) -> Tensor:
    """Return a vector as a matrix of one column, also where it is empty."""
    return values if values.dim() == 2 else values.unsqueeze(1)


def _shifted(codes: Tensor, count: int, start: int) -> Tensor:
    """Codes as rows of the embedding; missing and unknown codes use row `start`."""
    known = (codes >= 0) & (codes < count)
    return torch.where(known, codes.long() + 1, 0) + start


def calendar_parts(times: Tensor, stats: Mapping[str, Any], seed_time: Tensor | None, scale: float = 1.0) -> Tensor:
    """Year, month, weekday and hour of times in seconds since 1970, and how long before the seed they were."""
    missing = times == MISSING_TIME
    ago = torch.zeros(len(times), device=times.device)
    if seed_time is not None:
        seconds = seed_time.to(times.device)
        seconds = seconds if scale == 1 else torch.div(seconds, scale, rounding_mode="floor").long()
        missing = missing | (times > seconds)  # later than the seed
        ago = torch.log1p((seconds - times).masked_fill(missing, 0).float() / _DAY) / 8
    times = times.masked_fill(missing, 0)
    least, largest = int(stats.get("min", 0)), int(stats.get("max", 0))
    span = max(largest - least, 1)
    days = torch.div(times, _DAY, rounding_mode="floor")
    year, month = _civil(days)
    circles = [(month - 1).float() / 12, ((days + 4) % 7).float() / 7, (times % _DAY).float() / _DAY]
    parts = [
        (year - 2000).float() / 25,
        ((times - least).double() / span).float().clamp(-1, 2),
        ago,
        *(wave(2 * math.pi * turn) for turn in circles for wave in (torch.sin, torch.cos)),
    ]
    found = torch.stack(parts, dim=1).masked_fill(missing.unsqueeze(1), 0.0)
    return torch.cat([found, missing.unsqueeze(1).to(found.dtype)], dim=1)


def _civil(days: Tensor) -> tuple[Tensor, Tensor]:
    """Year and month of days since 1970, by the proleptic Gregorian calendar (H. Hinnant's civil_from_days)."""
    z = days + 719_468
    era = torch.div(z, 146_097, rounding_mode="floor")
    doe = z - era * 146_097
    yoe = (doe - doe // 1460 + doe // 36_524 - doe // 146_096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    shifted = (5 * doy + 2) // 153  # months from March
    month = torch.where(shifted < 10, shifted + 3, shifted - 9)
    return yoe + era * 400 + (month <= 2).long(), month


def to_tensor_frame(columns: Iterable[Column], values: Any) -> Any:
    """Return a `torch_frame.TensorFrame` of the columns of a batch (needs pytorch-frame).

    `values` is what a batch holds for a node type, `batch["user"]`, or any mapping of the arrays by name.
    """
    import torch_frame

    kinds = {
        "number": torch_frame.numerical,
        "bool": torch_frame.numerical,
        "category": torch_frame.categorical,
        "time": torch_frame.timestamp,
        "embedding": torch_frame.embedding,
    }
    names: dict[Any, list[str]] = {}
    parts: dict[Any, list[Tensor]] = {}
    for column in columns:
        if column.kind not in kinds:
            continue
        kind, own = kinds[column.kind], values[column.array]
        names.setdefault(kind, []).append(column.name)
        parts.setdefault(kind, []).append(own if column.kind == "embedding" else own[:, column.column])
    data: dict[Any, Any] = {}
    for kind, tensors in parts.items():
        if kind == torch_frame.embedding:
            offset = torch.tensor([0, *torch.tensor([t.shape[1] for t in tensors]).cumsum(0).tolist()])
            data[kind] = torch_frame.data.MultiEmbeddingTensor(
                len(tensors[0]), len(tensors), torch.cat(tensors, dim=1), offset
            )
        elif kind == torch_frame.timestamp:
            data[kind] = torch.stack([_date_fields(t) for t in tensors], dim=1)
        else:
            data[kind] = torch.stack(tensors, dim=1).to(torch.float32 if kind == torch_frame.numerical else torch.int64)
    return torch_frame.TensorFrame(data, names)


def _date_fields(times: Tensor) -> Tensor:
    """Year, month, day, weekday, hour, minute and second, -1 where missing, as in pytorch-frame."""
    missing = times == MISSING_TIME
    times = times.masked_fill(missing, 0)
    days = torch.div(times, _DAY, rounding_mode="floor")
    year, month = _civil(days)
    first = days.clone()
    for back in range(31):  # the first day of the month is at most 30 days back
        earlier = days - back
        first = torch.where(_civil(earlier)[1] == month, earlier, first)
    rest = times % _DAY
    fields = [year, month - 1, days - first, (days + 3) % 7, rest // 3600, rest % 3600 // 60, rest % 60]
    return torch.stack(fields, dim=1).masked_fill(missing.unsqueeze(1), -1)
