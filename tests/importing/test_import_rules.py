"""Rules for columns: names that no column has are refused before anything is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import graphzero as gz

pytest.importorskip("pyarrow")

USERS, ORDERS = {"id": ["a", "b"], "Signed Up": ["x", "y"]}, {"user": ["a"], "item": ["p"], "qty": [1]}


def refused(source: Any, tmp_path: Path, message: str, **options: Any) -> None:
    with pytest.raises(gz.InputError, match=message):
        gz.import_dataset(source, tmp_path / "out", **options)
    assert not list(tmp_path.glob("out*"))


def test_rules_of_keyed_tables(tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("id,Signed Up\na,x\nb,y\n")
    (tmp_path / "buys.csv").write_text("user\na\nb\n")
    (tmp_path / "keys.yaml").write_text(
        "users: {primary_key: id, columns: {Sgned Up: {kind: category}}}\nbuys: {foreign_keys: {user: users}}\n"
    )
    refused(
        tmp_path,
        tmp_path,
        r"users\.columns: no column 'Sgned Up' in the table; found 'id', 'Signed Up'; did you mean 'Signed Up'\?",
    )
    keys = (tmp_path / "keys.yaml").read_text()
    (tmp_path / "keys.yaml").write_text(keys.replace("Sgned", "Signed"))
    ds = gz.import_dataset(tmp_path, tmp_path / "out").dataset
    assert ds.nodes["users"].columns["Signed Up"].kind == "category"
    (tmp_path / "keys.yaml").write_text("users: {primary_key: idd}\nbuys: {foreign_keys: {user: users}}\n")
    with pytest.raises(gz.InputError, match=r"users\.primary_key: no column 'idd'.*; did you mean 'id'\?"):
        gz.import_dataset(tmp_path, tmp_path / "other")


@pytest.mark.parametrize("features", [{}, {"features": []}])
def test_rules_of_a_description(tmp_path: Path, features: dict[str, Any]) -> None:
    user = {"table": USERS, "columns": {"Sgned Up": "category"}, **features}
    edge = {"type": ("user", "buys", "item"), "table": ORDERS, **features}
    message = r"nodes\.user\.columns: no column 'Sgned Up' .*; did you mean 'Signed Up'\?"
    refused({"nodes": {"user": user}, "edges": [edge]}, tmp_path, message)
    message = r"edges\[0\]\.columns: no column 'qyt' .*; did you mean 'qty'\?"
    refused({"edges": [{**edge, "columns": {"qyt": "skip"}}]}, tmp_path, message)


@pytest.mark.parametrize("features", [{}, {"features": []}])
def test_rules_of_a_node_table(tmp_path: Path, features: dict[str, Any]) -> None:
    message = r"node_columns\['columns'\]: no column 'Sgned Up' .*; did you mean 'Signed Up'\?"
    rules = {"columns": {"Sgned Up": "skip"}, **features}
    refused({"src": ["a"], "dst": ["b"]}, tmp_path, message, nodes=USERS, node_columns=rules)
