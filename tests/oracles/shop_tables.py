"""A shop in tables: users, items, orders and friends, as files with a description and as objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

BOUGHT, FOLLOWS = ("user", "bought", "item"), ("user", "follows", "user")
USERS = {
    "user_id": ["ann", "bob", "eve"],
    "age": [30.0, 40.0, 50.0],
    "country": ["no", "fr", "no"],
    "churn": [0, 1, 0],
    "split": ["train", "train", "test"],
    "joined": np.array(["2020-01-01", "2020-01-02", "1970-01-01"], "datetime64[D]"),
}
ITEMS = {"id": [900, 17, 55, 3], "price": [1.0, 2.0, 3.0, 4.0], "emb": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]}
ORDERS = {
    "user": ["eve", "ann", "ann", "bob", "ann"],
    "item": [55, 900, 3, 17, 900],
    "amount": [1.0, 2.0, 3.0, 4.0, 5.0],
    "when": ["2024-05-31", "2024-05-30 12:00:00", "2024-01-01", "1970-01-02", "2024-05-30"],
    "channel": ["web", "shop", "web", "app", "web"],
    "qty": [1, 2, 3, 4, 5],
}
FRIENDS = {"a": ["ann", "bob"], "b": ["bob", "eve"]}


def write(folder: Path) -> Path:
    (folder / "in").mkdir(parents=True)
    for name, table in (("users", USERS), ("items", ITEMS), ("orders", ORDERS)):
        parquet.write_table(pa.table(table), folder / "in" / f"{name}.parquet")
    (folder / "in" / "friends.csv").write_text("a,b\nann,bob\nbob,eve\n")
    spec = {
        "name": "shop",
        "nodes": {
            "user": {"table": "users.parquet", "label": "churn", "time": "joined"},
            "item": {"table": "items.parquet", "features": {"x": ["price"], "emb": "emb"}},
        },
        "edges": [
            {
                "type": ["user", "bought", "item"],
                "table": "orders.parquet",
                "source": "user",
                "target": "item",
                "weight": "amount",
                "time": "when",
                "features": ["channel", "qty"],
            },
            {"type": "user follows user", "table": "friends.csv", "source": "a", "target": "b"},
        ],
    }
    (folder / "in" / "shop.json").write_text(json.dumps(spec))
    return folder / "in" / "shop.json"


def spec(**changes: Any) -> dict[str, Any]:
    """The same in Python, with tables as objects."""
    users, items, orders = (
        changes.get(key, default) for key, default in (("users", {}), ("items", {}), ("orders", {}))
    )
    return {
        "nodes": {
            "user": {"table": pa.table(USERS), "label": "churn", **users},
            "item": {"table": pa.table(ITEMS), **items},
        },
        "edges": [{"type": BOUGHT, "table": pa.table(ORDERS), "source": "user", "target": "item", **orders}],
    }


def orders_of(ds: gz.Dataset) -> list[tuple[Any, ...]]:
    """Each edge in the source's own ids with what it carries, in the order of edge ids."""
    data = ds.edges[BOUGHT]
    users, items = ds.ids["user"], ds.ids["item"]
    found = {}
    for item in range(data.graph.num_targets):
        near, ids = data.graph.get_neighbours(item), data.graph.get_edge_ids(item)
        weights = data.graph.get_weights(item) if data.graph.has_weights else [None] * len(near)
        times = data.graph.get_times(item) if data.graph.has_times else [None] * len(near)
        for user, e, w, t in zip(near, ids, weights, times, strict=True):
            key = (users.to_original([user])[0], int(items.to_original([item])[0]))
            found[int(e)] = (*key, w, t)
    return [found[e] for e in sorted(found)]


def seconds(text: str) -> int:
    return int(np.datetime64(text, "s").astype(np.int64))
