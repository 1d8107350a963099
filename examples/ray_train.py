"""GraphSAGE on a Ray cluster: TorchTrainer starts the ranks, every rank mounts the same files and takes its share.

python examples/ray_train.py [FOLDER] [--nodes N] [--epochs N] [--workers N] [--memory SIZE] [--gpu]

FOLDER is a dataset in a folder that every node of the cluster sees. RAY_ADDRESS names the cluster; without it, one is
started on this machine.
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
    """What every rank runs; torch.distributed is set up already."""
    rank, world = train.get_context().get_world_rank(), train.get_context().get_world_size()
    device = get_device()
    torch.manual_seed(0)
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
            loss = functional.cross_entropy(out, batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        found = torch.zeros(2, device=device)  # right, seen
        with torch.no_grad():
            for batch in test:
                out = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
                found += torch.tensor([(out.argmax(1) == batch.y).sum(), len(batch.y)], device=device)
        torch.distributed.all_reduce(found)
        train.report({"accuracy": float(found[0] / found[1]), "loss": float(loss.detach())})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", help="a dataset; one is made where there is none")
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="256MB")
    parser.add_argument("--gpu", action="store_true")
    args = parser.parse_args()
    ray.init(log_to_driver=False)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(args.folder or Path(scratch, "data")).resolve()
        if not folder.exists():
            gz.synthesize(folder, nodes=args.nodes, edges=10 * args.nodes, dim=32, classes=8)
        config = {"folder": str(folder), "epochs": args.epochs, "memory": args.memory}
        scaling = train.ScalingConfig(num_workers=args.workers, use_gpu=args.gpu)
        results = train.RunConfig(name="graphzero", storage_path=scratch)  # on several hosts: a shared folder
        done = TorchTrainer(train_rank, train_loop_config=config, scaling_config=scaling, run_config=results).fit()
        print(f"test accuracy: {done.metrics['accuracy']:.1%}, {args.workers} workers")


if __name__ == "__main__":
    main()
