"""A hand-written DistributedDataParallel loop: each rank loads its part of every epoch from the files.

torchrun --nproc-per-node 2 examples/ddp.py [FOLDER] [--nodes N] [--epochs N] [--memory SIZE]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import distributed
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import graphzero as gz
from graphzero.train import GraphSAGE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="ddp-data", help="a dataset; created if it does not exist")
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--memory", default="256MB", help="for all ranks of this host together")
    args = parser.parse_args()
    cuda = torch.cuda.is_available()
    distributed.init_process_group("nccl" if cuda else "gloo")
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    device = torch.device("cuda", rank % torch.cuda.device_count()) if cuda else torch.device("cpu")
    if rank == 0 and not Path(args.folder).exists():
        gz.synthesize(args.folder, nodes=args.nodes, edges=10 * args.nodes, dim=32, classes=8)
    distributed.barrier()
    ds = gz.Dataset(args.folder)

    def loader(split: str, uneven: str) -> gz.NeighborLoader:
        # The rank is taken from the process group. With the same seed on all ranks, they divide one epoch.
        return gz.NeighborLoader(
            ds, split=split, fanouts=[10, 10], batch_size=256, shuffle=split == "train", seed=0, memory=args.memory,
            device=device if cuda else None, uneven=uneven,
        )  # fmt: skip

    torch.manual_seed(0)
    model = GraphSAGE(ds.features["x"].feature_dim, 64, ds.num_classes).to(device)
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    train = loader("train", "pad")  # the same number of batches on each rank, as DistributedDataParallel needs
    torch.manual_seed(rank)  # dropout differs between ranks
    for _ in range(args.epochs):
        for batch in train:
            out = parallel(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
            # DistributedDataParallel averages over ranks: weight each rank by its number of seeds.
            seeds = torch.tensor(float(batch.batch_size), device=device)
            distributed.all_reduce(seeds)
            loss = functional.cross_entropy(out, batch.y, reduction="sum") * ranks / seeds
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    right = torch.zeros((), device=device)
    with torch.no_grad():
        for batch in loader("test", "keep"):  # each seed exactly once
            out = model(batch.x, batch.edge_index, batch.num_sampled_nodes, batch.num_sampled_edges)
            right += (out.argmax(1) == batch.y).sum()
    distributed.all_reduce(right)
    if rank == 0:
        print(train.stats())
        print(f"test accuracy: {int(right) / len(ds.splits['test']):.1%}")
    distributed.barrier()  # no rank exits while another one still gathers
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
