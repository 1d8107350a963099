"""The two runs that `graphzero demo` compares, each in its own process so that its memory can be measured.

python -m graphzero.cli.demo_runs out-of-core|in-ram DATASET RESULT.json OPTIONS.json [REPORT.html]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphzero.dataset.dataset import Dataset
from graphzero.load.batch import Batch
from graphzero.load.stats import LoaderStats
from graphzero.train import Trainer, TrainOptions
from graphzero.train.tasks import NodeTask

from .train_output import progress


class InRam(Trainer):
    """The baseline with enough memory: load all rows; then sample, index and train, one batch after the other."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Load everything."""
        super().__init__(*args, **kwargs)
        assert isinstance(self.task, NodeTask)
        self.x = torch.from_numpy(np.array(self.data.features[self.options.feature].get_tensor()))
        self.labels = self.task.labels
        self.reads = "everything in RAM, no limit"
        for array in self.data.graph.csr():
            int(array.sum())  # read the topology too, so that sampling finds it in memory

    def loader(self, split: str, num_threads: int, memory: int) -> Any:
        """The same batches, built in the training thread from tensors in RAM, without a budget."""
        return RamLoader(self, split)


class RamLoader:
    """Batches from tensors in RAM."""

    def __init__(self, run: InRam, split: str) -> None:
        """Represent one split of the run's data."""
        self.run = run
        self.seeds = np.asarray(run.data.splits[split])
        self.shuffle = split == "train"
        self.epoch = self.first_batch = 0
        self.begin = time.perf_counter()

    def __len__(self) -> int:
        """Return the number of batches."""
        return -(-len(self.seeds) // self.run.task.batch_size)

    def set_epoch(self, epoch: int, first_batch: int = 0) -> None:
        """Set the next epoch and its first batch."""
        self.epoch, self.first_batch = epoch, first_batch

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of an epoch."""
        run, size = self.run, self.run.task.batch_size
        rng = np.random.default_rng((run.options.seed, self.epoch))
        order = rng.permutation(self.seeds) if self.shuffle else self.seeds
        for number in range(len(self)):
            ids = order[number * size : (number + 1) * size]
            seed = int(rng.integers(2**62))
            if number < self.first_batch:
                continue
            part = run.data.graph.sample(ids, list(run.options.fanouts), seed=seed)
            n_id = torch.from_numpy(part.node)
            yield Batch(
                x=run.x[n_id],
                y=run.labels[n_id[: len(ids)]],
                edge_index=torch.from_numpy(np.stack([part.row, part.col])),
                n_id=n_id,
                batch_size=len(ids),
                num_sampled_nodes=list(part.num_sampled_nodes),
                num_sampled_edges=list(part.num_sampled_edges),
            )

    def close(self) -> None:
        """Do nothing: the tensors belong to the run."""

    def stats(self) -> LoaderStats:
        """Return empty statistics: nothing runs in parallel with the training step."""
        return LoaderStats()


def main() -> None:
    """Run one of the two and write its result."""
    kind, folder, out, options, *report = sys.argv[1:]
    begin = time.perf_counter()
    trainer = {"out-of-core": Trainer, "in-ram": InRam}[kind]
    chosen = TrainOptions(**json.loads(Path(options).read_text()))
    with progress() as observer:
        run = trainer(Dataset(folder), chosen, observer=observer)
        ready = time.perf_counter() - begin
        result = run.fit()
    if report:
        result.write_report(report[0])
    peak_resident = max(sample.anonymous + sample.file for sample in result.memory)
    Path(out).write_text(json.dumps(result.to_dict() | {"ready_seconds": ready, "peak_resident": peak_resident}))


if __name__ == "__main__":
    main()
