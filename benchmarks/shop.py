"""Three tables of a shop to predictions, by the commands that each step prints, against a hand-written PyG model.

    python benchmarks/shop.py [FOLDER] [--users 600] [--withheld 1200] [--seeds 3] [--json PATH]

Users have gaps, categories, dates and numbers of very different scales; their label depends on their own columns and on
the purchases and products two hops away. GraphZero runs the printed "next:" lines unmodified. The PyG model (HeteroConv
of SAGEConv, full batches in RAM) gets the same tables and splits: numbers standardised by training rows, categories
one-hot, dates standardised and by month, indicators of gaps; learning rate and dropout are chosen on the validation
split from four pairs, and the weights of the best epoch are kept. Both are scored on the withheld users, whose label is
missing in the table: a test split of a small shop is too small to tell one point of accuracy.

Then the label depends on later purchases alone: without --time a model finds it there, with --time it must not.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import measure
import numpy as np
import pandas as pd
import torch
from torch.nn import functional
from torch_geometric.nn import HeteroConv, SAGEConv

import graphzero as gz

COUNTRIES = ["de", "fr", "no", "jp", "br", "in", "us", "za"]
KINDS = ["books", "toys", "garden", "music", "food", "tools"]
EDGES = [("user_id", "users"), ("sku", "products")]  # foreign keys of purchases


def standard(values: Any) -> Any:
    return (values - np.mean(values)) / (np.std(values) + 1e-9)


def with_gaps(values: Any, rng: np.random.Generator, share: float = 0.05) -> Any:
    """Remove a share of the values."""
    empty = pd.Series(values)
    return empty.mask(rng.random(len(empty)) < share)


def make_tables(users: int, seed: int) -> dict[str, pd.DataFrame]:
    """Return the tables by name."""
    rng = np.random.default_rng(seed)
    items, bought = users // 10 + 20, 6 * users
    price, kind = rng.lognormal(3, 1, items).round(2), rng.choice(KINDS, items)
    who, what = rng.integers(0, users, bought), rng.integers(0, items, bought)
    discount = rng.beta(1 + 3 * rng.random(users)[who], 3)
    country, age = rng.choice(COUNTRIES, users, p=rng.dirichlet([4] * 8)), rng.integers(18, 90, users).astype(float)
    income = rng.lognormal(10.5, 0.8, users).round()
    signup = np.datetime64("2021-01-01") + rng.integers(0, 1000, users).astype("m8[D]")

    def per_user(values: Any) -> Any:
        mean = np.bincount(who, values, users) / np.maximum(np.bincount(who, minlength=users), 1)
        return standard(mean)

    tastes = per_user(np.isin(kind[what], ["books", "toys"]).astype(float))
    own = standard(np.isin(country, ["no", "jp", "fr"]).astype(float)) + standard(age) + 0.7 * standard(np.log(income))
    near = 1.2 * tastes + 0.8 * per_user(np.log(price)[what]) + 0.8 * per_user(discount)
    score = own + near
    stays = score - np.median(score) + rng.logistic(0, 0.35, users) > 0
    return {
        "users": pd.DataFrame(
            {
                "id": [f"user-{i}" for i in range(users)],
                "age": with_gaps(age, rng),
                "country": with_gaps(country, rng),
                "income": with_gaps(income, rng),
                "signup": signup,
                "label": np.where(stays, "stays", "leaves"),
            }
        ),
        "products": pd.DataFrame(
            {"sku": [f"p{i:05}" for i in range(items)], "price": price, "kind": with_gaps(kind, rng, 0.03)}
        ),
        "purchases": pd.DataFrame(
            {
                "user_id": [f"user-{i}" for i in who],
                "sku": [f"p{i:05}" for i in what],
                "discount": with_gaps(discount, rng),
                "when": np.datetime64("2024-01-01T00:00") + rng.integers(0, 10**7, bought).astype("m8[s]"),
            }
        ),
    }


def leaking_tables(users: int, seed: int) -> dict[str, pd.DataFrame]:
    """Return tables whose label is decided by the channel of purchases after the signup, and by nothing before."""
    tables = make_tables(users, seed)
    rng = np.random.default_rng(seed)
    people, bought = tables["users"], tables["purchases"]
    people["label"] = rng.choice(["stays", "leaves"], users)
    owner = people.set_index("id").loc[bought["user_id"]]
    later = rng.random(len(bought)) < 0.5
    days = rng.integers(1, 200, len(bought)).astype("m8[D]")
    signup = owner["signup"].to_numpy().astype("datetime64[s]")
    bought["when"] = np.where(later, signup + days, signup - days)
    channel = np.where(owner["label"] == "leaves", "phone", "web")
    bought["channel"] = np.where(later, channel, rng.choice(["phone", "web"], len(bought)))
    return tables


def write_tables(tables: dict[str, pd.DataFrame], folder: Path) -> None:
    (folder / "shop").mkdir(parents=True)
    tables["users"].to_csv(folder / "shop/users.csv", index=False)
    tables["products"].to_parquet(folder / "shop/products.parquet")
    tables["purchases"].to_csv(folder / "shop/purchases.csv", index=False)


def run(command: str, folder: Path) -> str:
    """Run a printed command; return what it prints."""
    words = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command}\n{done.stdout}{done.stderr}")
    return done.stdout


def follow(folder: Path) -> list[str]:
    """Run `inspect`, and then each printed next step; return the commands."""
    commands = ["graphzero inspect shop"]
    while True:
        printed = [line for line in run(commands[-1], folder).splitlines() if line.startswith("next: ")]
        if not printed:
            return commands
        commands.append(printed[0].removeprefix("next: "))


def as_inputs(frame: pd.DataFrame, train: Any) -> torch.Tensor:
    """Return one row per row of a table, prepared as by hand."""
    parts: list[Any] = []
    for name, column in frame.items():
        if name in ("id", "sku", "user_id", "label"):
            continue
        if column.dtype.kind == "M":
            parts.append(pd.get_dummies(column.dt.month).to_numpy())
            column = column.astype("datetime64[s]").astype("int64")
        if column.dtype.kind in "iuf":
            known = column.iloc[train].dropna()
            scaled = (column - known.mean()) / (known.std() + 1e-9)
            parts += [scaled.fillna(0).to_numpy()[:, None], column.isna().to_numpy()[:, None]]
        else:
            parts.append(pd.get_dummies(column, dummy_na=True).to_numpy())
    return torch.from_numpy(np.concatenate([part.astype(np.float32) for part in parts], axis=1))


class HandWritten(torch.nn.Module):
    """Two layers of SAGEConv per relation, with a linear layer per node type before them and one after."""

    def __init__(self, widths: dict[str, int], relations: list[Any], hidden: int, dropout: float) -> None:
        super().__init__()
        self.enter = torch.nn.ModuleDict({name: torch.nn.Linear(width, hidden) for name, width in widths.items()})
        self.layers = torch.nn.ModuleList(
            HeteroConv({key: SAGEConv((hidden, hidden), hidden) for key in relations}) for _ in range(2)
        )
        self.leave, self.dropout = torch.nn.Linear(hidden, 2), dropout

    def forward(self, x: Any, edges: Any) -> torch.Tensor:
        rows = {name: self.enter[name](part).relu() for name, part in x.items()}
        for layer in self.layers:
            rows = {name: functional.dropout(part.relu(), self.dropout, self.training)
                    for name, part in layer(rows, edges).items()}  # fmt: skip
        return self.leave(rows["users"])


def by_hand(tables: dict[str, pd.DataFrame], splits: dict[str, Any], seed: int) -> float:
    """Return the test accuracy of the PyG model with the settings that validate best."""
    place = {name: {key: i for i, key in enumerate(tables[name].iloc[:, 0])} for name in ("users", "products")}
    x, edges = {}, {}
    for name, frame in tables.items():
        x[name] = as_inputs(frame, splits["train"] if name == "users" else slice(None))
    for column, target in EDGES:
        ends = torch.tensor([place[target][key] for key in tables["purchases"][column]])
        pairs = torch.stack([torch.arange(len(ends)), ends])
        edges["purchases", column, target], edges[target, f"rev_{column}", "purchases"] = pairs, pairs.flip(0)
    y = torch.from_numpy((tables["users"]["label"] == "stays").to_numpy().astype(np.int64))
    ids = {name: torch.from_numpy(np.asarray(of)) for name, of in splits.items()}
    tried = [fit(x, edges, y, ids, lr, dropout, seed) for lr, dropout in itertools.product((0.003, 0.01), (0.2, 0.5))]
    return max(tried)[1]


def fit(x: Any, edges: Any, y: Any, ids: Any, lr: float, dropout: float, seed: int) -> tuple[float, float]:
    """Return validation and test accuracy of the epoch that validates best."""
    torch.manual_seed(seed)
    model = HandWritten({name: part.shape[1] for name, part in x.items()}, list(edges), 64, dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=5e-4)
    best, since = (-1.0, -1.0), 0
    for _ in range(300):
        model.train()
        optimizer.zero_grad()
        functional.cross_entropy(model(x, edges)[ids["train"]], y[ids["train"]]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            right = (model(x, edges).argmax(1) == y).float()
        scores = tuple(float(right[ids[name]].mean()) for name in ("valid", "test"))
        best, since = (scores, 0) if scores[0] > best[0] else (best, since + 1)
        if since == 50:
            break
    return best


def compare(users: int, withheld: int, seed: int, folder: Path) -> dict[str, Any]:
    tables = make_tables(users + withheld, seed)
    labels = tables["users"]["label"].copy()
    hidden = np.arange(users, len(labels))
    tables["users"].loc[hidden, "label"] = None
    write_tables(tables, folder)
    commands = follow(folder)
    node = gz.Dataset(folder / "shop-dataset").nodes["users"]
    splits = {name: node.ids.to_original(np.asarray(of)) for name, of in node.splits.items()}
    place = {key: i for i, key in enumerate(tables["users"]["id"])}
    rows = {name: np.array([place[key] for key in ids]) for name, ids in splits.items()}
    tables["users"]["label"] = labels
    rows["test"] = hidden
    found = pd.read_csv(folder / "predictions.csv").set_index("id")["prediction"]
    ours = float((found[tables["users"]["id"][hidden]].to_numpy() == labels[hidden].to_numpy()).mean())
    theirs = by_hand(tables, rows, seed)
    majority = labels[hidden].value_counts(normalize=True).max()
    return {"users": users, "seed": seed, "commands": commands, "graphzero": ours, "pyg": theirs, "majority": majority}


def leak(users: int, seed: int, folder: Path) -> dict[str, Any]:
    write_tables(leaking_tables(users, seed), folder)
    run("graphzero inspect shop --out shop/keys.yaml", folder)
    run("graphzero import shop/keys.yaml shop-dataset --splits 70/15/15", folder)
    found = [
        json.loads(run(f"graphzero train shop-dataset --json {time}", folder))["test_accuracy"]
        for time in ("", "--time time")
    ]
    return {"users": users, "seed": seed, "without --time": found[0], "with --time": found[1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--users", default="600")
    parser.add_argument("--withheld", type=int, default=1200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json")
    args = parser.parse_args()
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for users in map(int, args.users.split(",")):
            runs = []
            for seed in range(args.seeds):
                runs.append(compare(users, args.withheld, seed, Path(folder, f"{users}-{seed}")))
                line = (
                    "{users:>6,} users, seed {seed}: graphzero {graphzero:.1%}, PyG {pyg:.1%}, majority {majority:.1%}"
                )
                print(line.format(**runs[-1]), flush=True)
            mean = {name: statistics.mean(one[name] for one in runs) for name in ("graphzero", "pyg")}
            print(f"{users:>6,} users: {len(runs[0]['commands'])} commands, graphzero {mean['graphzero']:.2%}, "
                  f"PyG {mean['pyg']:.2%}")  # fmt: skip
            found += runs
        print("\n".join(runs[0]["commands"]))
        for seed in range(args.seeds):
            found.append(leak(1000, seed, Path(folder, f"leak-{seed}")))
            print("label in later purchases: without --time {without --time:.1%}, "
                  "with --time {with --time:.1%}".format(**found[-1]), flush=True)  # fmt: skip
    measure.save(args.json, {"runs": found})


if __name__ == "__main__":
    main()
