"""A relational database of 100 M rows: imported within 2 GB, trained on within 4 GB, by the commands that users type.

    python benchmarks/relational.py FOLDER [--rows 100e6] [--epochs 1] [--json OUT] [--remove]

FOLDER gets a shop of seven tables in Parquet files (customers, products, stores, orders, items of orders, reviews,
visits) with the given number of rows together, a keys file, and a task: does a customer order again? Keys are text
(customers), integers in random order (products) and integers that start at 1 (orders); items, reviews and visits have
none. Columns are numbers, text and times, with missing values, missing keys and keys that refer to no row. The tables
depend on `--rows` alone. Each command runs in a control group whose limit includes the page cache:

    graphzero import FOLDER/shop FOLDER/dataset    within 2 GB
    graphzero train FOLDER/dataset --task again    within 4 GB, batches of 512 seeds with [10, 5] neighbours

and prints its seconds, rows per second and the peak memory that the kernel counted. For comparison, DuckDB reads the
same files into a database of its own with the same budget and limit. It needs root, for the control groups.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import limited
import measure
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from graphzero.args.sizes import format_size, parse_size

SHARES = {"customers": 0.05, "products": 0.01, "orders": 0.22, "items": 0.5, "reviews": 0.1, "visits": 0.12}
STORES = 500
BLOCK = 1 << 20
START = np.datetime64("2020-01-01T00:00:00").astype(np.int64)
SPAN = 3 * 365 * 86_400
CHANNELS = pa.array(["web", "app", "shop", "phone"])
COUNTRIES = pa.array(["no", "fr", "jp", "de", "us", "br", "in", "za", "it", "es"])
KEYS = """\
tables:
  customers: {primary_key: customer_id, time: joined}
  products: {primary_key: sku}
  stores: {primary_key: store_id}
  orders: {primary_key: order_id, foreign_keys: {customer_id: customers, store_id: stores}, time: ordered}
  items: {foreign_keys: {order_id: orders, sku: products}, time: ordered}
  reviews: {foreign_keys: {customer_id: customers, sku: products}, time: written}
  visits: {foreign_keys: {customer_id: customers, sku: products}, time: visited}
tasks:
  again: {table: ../again.parquet, entity: customers, id: customer_id, time: day, label: again}
"""


class Shop:
    """The tables of the shop, in blocks that depend on their number alone."""

    def __init__(self, rows: int) -> None:
        self.count = {name: max(10, int(rows * share)) for name, share in SHARES.items()} | {"stores": STORES}

    def tables(self) -> dict[str, Callable[[np.random.Generator, np.ndarray], dict[str, Any]]]:
        """The columns of a block of rows of each table."""
        names = ("customers", "products", "stores", "orders", "items", "reviews", "visits")
        return {name: getattr(self, name) for name in names}

    def customers(self, rng: np.random.Generator, at: np.ndarray) -> dict[str, Any]:
        age = pa.array(rng.normal(45, 15, len(at)).round(), mask=rng.random(len(at)) < 0.1)
        country = pa.DictionaryArray.from_arrays(rng.integers(0, 10, len(at)), COUNTRIES).dictionary_decode()
        joined = START + rng.integers(-SPAN, 0, len(at))
        ids = {"customer_id": self.customer_ids(at), "age": age, "country": country}
        return ids | {"joined": _times(joined), "newsletter": rng.random(len(at)) < 0.3}

    def products(self, rng: np.random.Generator, at: np.ndarray) -> dict[str, Any]:
        brands = pa.array([f"brand {b}" for b in range(2000)])
        brand = pa.DictionaryArray.from_arrays((rng.pareto(1, len(at)) * 20).astype(int) % 2000, brands)
        price = rng.lognormal(3, 1, len(at)).round(2)
        return {"sku": self.skus(at), "brand": brand.dictionary_decode(), "price": price, "weight": price * 0.1}

    def stores(self, rng: np.random.Generator, at: np.ndarray) -> dict[str, Any]:
        return {"store_id": at, "size": rng.random(len(at)).astype(np.float32)}

    def orders(self, rng: np.random.Generator, at: np.ndarray) -> dict[str, Any]:
        channel = pa.DictionaryArray.from_arrays(rng.integers(0, 4, len(at)), CHANNELS).dictionary_decode()
        store = pa.array(rng.integers(0, STORES, len(at)), mask=rng.random(len(at)) < 0.4)
        keys = {"order_id": at + 1, "customer_id": self.some_customers(rng, len(at)), "store_id": store}
        times = _times(self.order_times(at))
        return keys | {"ordered": times, "total": rng.lognormal(4, 1, len(at)), "channel": channel}

    def items(self, rng: np.random.Generator, at: np.ndarray) -> dict[str, Any]:
        order = at * self.count["orders"] // self.count["items"]
        count = rng.integers(1, 5, len(at)).astype(np.int16)
        keys = {"order_id": order + 1, "sku": self.some_products(rng, len(at))}
        return keys | {"ordered": _times(self.order_times(order)), "count": count, "paid": rng.lognormal(3, 1, len(at))}

    def reviews(self, rng: np.random.Generator, at: np.ndarray) -> dict[str, Any]:
        keys = {"customer_id": self.some_customers(rng, len(at)), "sku": self.some_products(rng, len(at))}
        rating = pa.array(rng.integers(1, 6, len(at)), mask=rng.random(len(at)) < 0.05)
        return keys | {"written": _times(START + rng.integers(0, SPAN, len(at))), "rating": rating}

    def visits(self, rng: np.random.Generator, at: np.ndarray) -> dict[str, Any]:
        sku = self.some_products(rng, len(at), missing=0.2)
        keys = {"customer_id": self.some_customers(rng, len(at)), "sku": sku}
        times = _times(START + rng.integers(0, SPAN, len(at)))
        return keys | {"visited": times, "seconds": rng.exponential(60, len(at))}

    def order_times(self, order: np.ndarray) -> np.ndarray:
        """Orders are numbered in the order of their time, as they are in shops."""
        return START + order * SPAN // self.count["orders"]

    def customer_ids(self, numbers: np.ndarray) -> Any:
        digits = pa.array(numbers * 2_654_435_761 % 2**32).cast(pa.string())
        return pa.compute.binary_join_element_wise("C", digits, "-")

    def skus(self, numbers: np.ndarray) -> Any:
        return pa.array(numbers * 2_654_435_761 % 2**32)  # an odd factor: every number has one of its own

    def some_customers(self, rng: np.random.Generator, count: int) -> Any:
        """Many rows belong to few customers, and one in 10,000 to a customer that is not there."""
        number = (rng.random(count) ** 2 * self.count["customers"]).astype(np.int64)
        return self.customer_ids(np.where(rng.random(count) < 1e-4, self.count["customers"] + number, number))

    def some_products(self, rng: np.random.Generator, count: int, missing: float = 0.0) -> Any:
        number = (rng.random(count) ** 3 * self.count["products"]).astype(np.int64)
        found = self.skus(number)
        return found if not missing else pa.compute.if_else(pa.array(rng.random(count) >= missing), found, None)

    def examples(self) -> dict[str, Any]:
        """The task: frequent customers, which have small numbers, order again."""
        rng, count = np.random.default_rng(99), min(200_000, 4 * self.count["customers"])
        number = rng.integers(0, self.count["customers"], count)
        day = START // 86_400 + rng.integers(365, 3 * 365, count)
        again = rng.random(count) < np.exp(-3 * number / self.count["customers"])
        days = pa.array(day.astype("datetime64[D]"))
        return {"customer_id": self.customer_ids(number), "day": days, "again": again.astype(np.int8)}


def _times(seconds: np.ndarray) -> np.ndarray:
    return seconds.astype("datetime64[s]").astype("datetime64[us]")


def generate(folder: Path, rows: int) -> None:
    """Write the tables."""
    shop, target = Shop(rows), folder / "shop"
    target.mkdir(parents=True)
    for number, (name, columns) in enumerate(shop.tables().items()):
        writer = None
        for at in range(0, shop.count[name], BLOCK):
            block = np.arange(at, min(at + BLOCK, shop.count[name]))
            batch = pa.RecordBatch.from_pydict(columns(np.random.default_rng([number, at]), block))
            writer = writer or parquet.ParquetWriter(target / f"{name}.parquet", batch.schema)
            writer.write_batch(batch)
        assert writer is not None
        writer.close()
    parquet.write_table(pa.table(shop.examples()), folder / "again.parquet")
    (target / "keys.yaml").write_text(KEYS)


def duck(folder: Path, memory: str) -> dict[str, Any]:
    """Read the same files into a DuckDB database: what a copy of the columns alone costs there."""
    import duckdb

    start = time.perf_counter()
    with duckdb.connect(str(folder / "shop.duckdb"), config={"memory_limit": memory, "threads": 2}) as base:
        for path in sorted((folder / "shop").glob("*.parquet")):
            base.execute(f"create table {path.stem} as select * from read_parquet('{path}')")
    return {"seconds": time.perf_counter() - start}


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "graphzero", *words]


def rows_of(shop: Shop, size: int, runs: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The lines of the table."""
    rows, done = sum(shop.count.values()), runs.get("import", {"failed": "not run"})
    yield "tables", format_size(size), f"{rows:,} rows in {len(shop.count)} Parquet files"
    for name, run in runs.items():
        if "failed" in run:
            yield name, "failed", f"{run['failed']}, kernel kills {run.get('kills')}"
        elif name == "train":
            epochs = run["epochs"]
            batches = sum(epoch.get("batches", 0) for epoch in epochs)
            yield name, f"{run['wall']:,.0f} s", f"{batches} batches, loss {epochs[-1]['loss']:.3f}"
        elif name == "import":
            yield name, f"{rows / run['wall'] / 1e6:.2f} M rows/s", f"{run['wall']:,.1f} s; {run['edges']:,} edges"
            yield f"{name}: size", format_size(run["bytes"]), f"{run['nodes']:,} nodes"
        else:
            yield name, f"{rows / run['seconds'] / 1e6:.2f} M rows/s", f"{run['seconds']:,.1f} s"
        if run.get("group_peak"):
            anonymous = f", {format_size(run['peak_memory'])} anonymous" if "peak_memory" in run else ""
            yield f"{name}: memory", format_size(run["group_peak"]), f"kernel kills {run['kills']}{anonymous}"
    if "failed" not in done:
        slow = sorted(((s, part) for part, s in done["seconds"].items() if part != "total"), reverse=True)
        yield "import: parts", "", ", ".join(f"{part} {s:.1f} s" for s, part in slow[:8])


def timed(command: list[str], limit: str) -> dict[str, Any]:
    start = time.perf_counter()
    done = limited.execute(command, parse_size(limit))
    return done | {"wall": time.perf_counter() - start}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=float, default=100e6)
    parser.add_argument("--memory", default="1GB", help="of the import")
    parser.add_argument("--import-limit", default="2GB")
    parser.add_argument("--train-limit", default="4GB")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--runs", default="import,train,duckdb")
    parser.add_argument("--remove", action="store_true", help="remove the files afterwards")
    parser.add_argument("--json")
    parser.add_argument("--run", choices=["duckdb"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        print(json.dumps(duck(args.folder, args.memory)))
        return
    shop, wanted, runs = Shop(int(args.rows)), args.runs.split(","), dict[str, Any]()
    if not (args.folder / "shop" / "keys.yaml").exists():
        generate(args.folder, int(args.rows))
    size = sum(path.stat().st_size for path in (args.folder / "shop").glob("*.parquet"))
    source, out = str(args.folder / "shop"), str(args.folder / "dataset")
    if "import" in wanted:
        words = ("import", source, out, "--memory", args.memory, "--overwrite", "--json")
        runs["import"] = timed(command(*words), args.import_limit)
    if "train" in wanted:
        words = ("train", out, "--task", "again", "--fanouts", "10,5", "--batch-size", "512", "--hidden", "64")
        words += ("--epochs", str(args.epochs), "--no-save", "--json")
        runs["train"] = timed(command(*words), args.train_limit)
    if "duckdb" in wanted:
        (args.folder / "shop.duckdb").unlink(missing_ok=True)
        runs["duckdb"] = limited.run("duckdb", parse_size(args.import_limit))
    measure.show("A relational database, from tables to training", list(rows_of(shop, size, runs)), args.folder)
    measure.save(args.json, {"rows": sum(shop.count.values()), "bytes": size, **runs}, args.folder)
    if args.remove:
        shutil.rmtree(args.folder)
    if any(run.get("kills") or "failed" in run for run in runs.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
