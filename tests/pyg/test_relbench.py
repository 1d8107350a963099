"""A script in the style of RelBench's examples: Database, task, graph, NeighborLoader, training, evaluation.

`script` is such a script, unchanged but for the import of NeighborLoader. Where relbench and pytorch-frame are
installed it runs on their classes; otherwise on objects with the same attributes, whose tables become plain features.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
pd = pytest.importorskip("pandas")

from torch_geometric.data import HeteroData  # noqa: E402
from torch_geometric.nn import MLP, HeteroConv, SAGEConv  # noqa: E402

from graphzero.pyg import NeighborLoader  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

CUSTOMERS, PRODUCTS, REVIEWS = 80, 15, 900
START, DAY = pd.Timestamp("2024-01-01"), pd.Timedelta(days=1)
CUTS = {"train": START + 30 * DAY, "val": START + 60 * DAY, "test": START + 80 * DAY}


@dataclass
class Table:
    """The attributes of relbench.base.Table."""

    df: Any
    fkey_col_to_pkey_table: dict[str, str] = field(default_factory=dict)
    pkey_col: str | None = None
    time_col: str | None = None

    def __len__(self) -> int:
        return len(self.df)


@dataclass
class Database:
    """The attributes of relbench.base.Database."""

    table_dict: dict[str, Table]


def tables() -> dict[str, dict[str, Any]]:
    """Customers review products; those who give low ratings early give more of them later."""
    rng = np.random.default_rng(4)
    mood = rng.integers(0, 2, CUSTOMERS)
    who = rng.integers(0, CUSTOMERS, REVIEWS)
    reviews = pd.DataFrame(
        {
            "customer_id": who,
            "product_id": rng.integers(0, PRODUCTS, REVIEWS),
            "rating": np.where(mood[who] == 1, 1.0, 4.0) + rng.random(REVIEWS),
            "date": START + np.sort(rng.integers(0, 110, REVIEWS)) * DAY,
        }
    )
    customers = pd.DataFrame({"customer_id": np.arange(CUSTOMERS), "age": rng.random(CUSTOMERS)})
    products = pd.DataFrame({"product_id": np.arange(PRODUCTS), "price": rng.random(PRODUCTS)})
    keys = {"customer_id": "customer", "product_id": "product"}
    return {
        "customer": {"df": customers, "pkey_col": "customer_id", "fkey_col_to_pkey_table": {}},
        "product": {"df": products, "pkey_col": "product_id", "fkey_col_to_pkey_table": {}},
        "review": {"df": reviews, "fkey_col_to_pkey_table": keys, "time_col": "date"},
    }


def task_table(reviews: Any, split: str) -> Any:
    """Return (customer, day, whether the mean rating of the next 20 days is low), as a task makes it."""
    day = CUTS[split]
    later = reviews[(reviews["date"] > day) & (reviews["date"] <= day + 20 * DAY)]
    mean = later.groupby("customer_id")["rating"].mean()
    return pd.DataFrame({"customer_id": mean.index, "timestamp": day, "low": (mean < 3).to_numpy().astype(float)})


def plain_graph(db: Any) -> HeteroData:
    """make_pkey_fkey_graph for tables of numbers, without TensorFrames."""
    data = HeteroData()
    for name, table in db.table_dict.items():
        kept = [c for c in table.df if c not in (table.pkey_col, table.time_col, *table.fkey_col_to_pkey_table)]
        data[name].x = torch.tensor(table.df[kept].to_numpy(np.float32))
        if table.time_col is not None:
            data[name].time = torch.from_numpy(seconds(table.df[table.time_col]))
        for key, target in table.fkey_col_to_pkey_table.items():
            pairs = torch.stack([torch.arange(len(table)), torch.tensor(table.df[key].to_numpy())])
            data[name, f"f2p_{key}", target].edge_index = pairs
            data[target, f"rev_f2p_{key}", name].edge_index = pairs.flip(0)
    return data


def seconds(dates: Any) -> Any:
    return dates.to_numpy().astype("datetime64[s]").astype(np.int64)


class AttachTarget:
    """RelBench's transform: an input node may occur with several times, so that labels are those of rows."""

    def __init__(self, entity: str, target: Any) -> None:
        self.entity, self.target = entity, target

    def __call__(self, batch: HeteroData) -> HeteroData:
        batch[self.entity].y = self.target[batch[self.entity].input_id]
        return batch


class Encoder(torch.nn.Module):
    """A linear layer per table."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, batch: HeteroData) -> Any:
        return {name: self.inner[name](batch[name].x) for name in batch.node_types}


class FrameEncoder(Encoder):
    """RelBench's encoder of TensorFrames."""

    def forward(self, batch: HeteroData) -> Any:
        return self.inner(batch.tf_dict)


class Model(torch.nn.Module):
    """An encoder per table, two layers of SAGEConv per relation, and a head."""

    def __init__(self, data: HeteroData, encoder: Any, channels: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.layers = torch.nn.ModuleList(
            HeteroConv({t: SAGEConv((channels, channels), channels) for t in data.edge_types}) for _ in range(2)
        )
        self.head = MLP([channels, 1], norm=None)

    def forward(self, batch: HeteroData, entity: str) -> Any:
        x = self.encoder(batch)
        for layer in self.layers:
            x = {name: rows.relu() for name, rows in layer(x, batch.edge_index_dict).items()}
        return self.head(x[entity][: batch[entity].seed_time.size(0)]).view(-1)


def script(data: HeteroData, encoder: Any, inputs: dict[str, tuple[Any, Any, Any]]) -> dict[str, float]:
    """Train on the rows of a task and evaluate it: `inputs` has nodes, times and targets by split."""
    torch.manual_seed(0)
    entity, loaders = "customer", {}
    for split, (nodes, times, target) in inputs.items():
        loaders[split] = NeighborLoader(
            data,
            num_neighbors=[16, 16],
            time_attr="time",
            input_nodes=(entity, nodes),
            input_time=times,
            transform=AttachTarget(entity, target),
            batch_size=32,
            temporal_strategy="uniform",
            shuffle=split == "train",
        )
    model = Model(data, encoder, 16)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(15):
        model.train()
        for batch in loaders["train"]:
            assert (batch["review"].time <= batch["customer"].seed_time[batch["review"].batch]).all()
            optimizer.zero_grad()
            out = model(batch, entity)
            torch.nn.functional.binary_cross_entropy_with_logits(out, batch[entity].y.float()).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return {
            split: torch.cat([model(batch, entity) for batch in loader]).numpy() for split, loader in loaders.items()
        }


def task_inputs(reviews: Any) -> dict[str, tuple[Any, Any, Any]]:
    made = {split: task_table(reviews, split) for split in CUTS}
    return {
        split: tuple(
            torch.tensor(values)
            for values in (rows["customer_id"].to_numpy(), seconds(rows["timestamp"]), rows["low"].to_numpy())
        )
        for split, rows in made.items()
    }


def test_a_hand_made_database() -> None:
    db = Database({name: Table(**table) for name, table in tables().items()})
    data, inputs = plain_graph(db), task_inputs(db.table_dict["review"].df)
    linear = {name: torch.nn.Linear(data[name].x.shape[1], 16) for name in data.node_types}
    predicted = script(data, Encoder(torch.nn.ModuleDict(linear)), inputs)
    assert ((predicted["test"] > 0) == (inputs["test"][2].numpy() > 0.5)).mean() > 0.9


def test_relbench_itself() -> None:
    base = pytest.importorskip("relbench.base")
    modeling = pytest.importorskip("relbench.modeling.graph")
    from relbench.metrics import roc_auc
    from relbench.modeling.nn import HeteroEncoder
    from torch_frame import stype

    class Shop(base.Dataset):
        val_timestamp, test_timestamp = CUTS["val"], CUTS["test"]

        def make_db(self) -> Any:
            return base.Database({name: base.Table(**table) for name, table in tables().items()})

    class Low(base.EntityTask):
        task_type = base.TaskType.BINARY_CLASSIFICATION
        entity_col, entity_table, time_col, target_col = "customer_id", "customer", "timestamp", "low"
        timedelta, metrics = 20 * DAY, [roc_auc]

        def make_table(self, db: Any, timestamps: Any) -> Any:
            parts = []
            for day in timestamps:
                CUTS["asked"] = day
                parts.append(task_table(db.table_dict["review"].df, "asked"))
            del CUTS["asked"]
            keys = {"customer_id": "customer"}
            return base.Table(pd.concat(parts, ignore_index=True), keys, time_col="timestamp")

    task = Low(Shop())
    stypes = {
        "customer": {"age": stype.numerical},
        "product": {"price": stype.numerical},
        "review": {"rating": stype.numerical, "date": stype.timestamp},
    }
    data, stats = modeling.make_pkey_fkey_graph(task.get_db(), stypes)
    inputs = {}
    for split in ("train", "val", "test"):
        table = modeling.get_node_train_table_input(task.get_table(split, mask_input_cols=False), task)
        inputs[split] = (table.nodes[1], table.time, table.target)
    encoder = HeteroEncoder(
        16,
        {name: data[name].tf.col_names_dict for name in data.node_types},
        stats,
        torch_frame_model_kwargs={"channels": 16, "num_layers": 1},
    )
    predicted = script(data, FrameEncoder(encoder), inputs)
    assert task.evaluate(predicted["test"])["roc_auc"] > 0.9
    assert task.evaluate(predicted["val"], task.get_table("val"))["roc_auc"] > 0.9
