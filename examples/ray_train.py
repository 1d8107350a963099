"""GraphSAGE on a Ray cluster: TorchTrainer starts the ranks; every rank mounts the same files and loads its share.

python examples/ray_train.py [FOLDER] [--nodes N] [--epochs N] [--workers N] [--memory SIZE] [--gpu]

FOLDER is mounted on every node of the cluster. RAY_ADDRESS names the cluster; without it, one is started here.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import ray
import torch
from ray import train
from ray.train.torch import TorchTrainer, get_device, prepare_model
from torch.nn import functional

import graphzero as gz
from graphzero.train import GraphSAGE


def train_rank(config: dict[str, Any]) -> None:
    """The function that every rank runs; torch.distributed is already initialised."""
    rank, world, device = train.get_context().get_world_rank(), train.get_context().get_world_size(), get_device()
    ds = gz.Dataset(config["folder"])

    def loader(split: str) -> gz.NeighborLoader:
        return gz.NeighborLoader(
            ds.graph,
            ds.features["x"],
            fanouts=[10, 10],
            seeds=ds.splits[split],
            labels=ds.labels,
            batch_size=512 // world,  # the global batch stays the same
            shuffle=split == "train",
            seed=0,
            memory=config["memory"],
            rank=rank,
            world_size=world,
            device=None if device.type == "cpu" else device,
        )

    model = prepare_model(GraphSAGE(ds.features["x"].feature_dim, 64, ds.num_classes))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    batches, test = loader("train"), loader("test")
    for _ in range(config["epochs"]):
        model.train()
        for batch in batches:
            out = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
            optimizer.zero_grad()
            functional.cross_entropy(out, batch.y).backward()
            optimizer.step()
        model.eval()
        found = torch.zeros(2, device=device)  # correct, total
        with torch.no_grad():
            for batch in test:
                out = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
                found += torch.tensor([(out.argmax(1) == batch.y).sum(), len(batch.y)], device=device)
        torch.distributed.all_reduce(found)
        with tempfile.TemporaryDirectory() as made:  # Ray keeps the metrics that come with a checkpoint
            torch.save(getattr(model, "module", model).state_dict(), Path(made, "model.pt"))
            checkpoint = train.Checkpoint.from_directory(made) if rank == 0 else None
            train.report({"accuracy": float(found[0] / found[1])}, checkpoint=checkpoint)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", help="a dataset; created if it does not exist")
    for name, default in (("--nodes", 20_000), ("--epochs", 3), ("--workers", 2)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--memory", default="256MB")
    parser.add_argument("--gpu", action="store_true")
    args = parser.parse_args()
    ray.init(log_to_driver=False)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(args.folder or Path(scratch, "data")).resolve()
        if not folder.exists():
            gz.synthesize(folder, nodes=args.nodes, edges=10 * args.nodes, dim=32, classes=8)
        config = vars(args) | {"folder": str(folder)}
        scaling = train.ScalingConfig(num_workers=args.workers, use_gpu=args.gpu)
        results = train.RunConfig(name="graphzero", storage_path=scratch)  # on several hosts: a shared folder
        done = TorchTrainer(train_rank, train_loop_config=config, scaling_config=scaling, run_config=results).fit()
        print(f"test accuracy: {done.metrics['accuracy']:.1%}, {args.workers} workers")


if __name__ == "__main__":
    main()
