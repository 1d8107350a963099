"""Feeding a GPU: what the loader delivers to the device, against the loader, the link and the model alone.

    python benchmarks/gpu.py FOLDER [--nodes 10000000] [--edges 200000000] [--batches 300] [--only PART] [--check]
        [--json OUT]

Makes a power-law graph with 128 x float32 features and trains PyG's GraphSAGE of three layers of 256, trimmed to the
hops that each layer needs, in float32 and in bfloat16 autocast. Reports batches per second for: the model alone, the
loader on the CPU, the link (copies from page-locked memory), the loader with device="cuda", training with it, and
training with the plain copy that users would write. Then the same with rows on the GPU: a fifth of them (gpu_memory),
chosen by next use, and all of them; and how often such a cache misses, against Belady's rule with the same horizon,
simulated with all batches at hand. What a slower link would give is computed from the bytes that cross it. The first
epoch of a loader warms it up; of the three after it, the fastest counts. `--check` first compares batches on the GPU
with those on the CPU; a run of all parts does so anyway.

Each batch has sizes of its own, and for matrices of sizes that it has not seen, cuBLASLt searches for kernels, which
costs the thread that launches them up to half of a step in bfloat16. So there are two figures of the model alone: for a
few batches on the GPU, again and again, and for many that are new; and three of training: for new epochs, for one that
is trained again, and for new epochs whose batches have few sizes (pad_nodes).

`--only profile` prints instead, for training with rows on the GPU, the processor time per batch of each kind of thread,
what the device does, and the calls in which the host waits for it. `--only next` prints what next() costs the thread
that calls it (gpu_next.py), and `--only trainer` how fast `graphzero.train` is (gpu_trainer.py). With `--cpu` they need
no GPU: moving a batch is then a copy in RAM, the rest is the same.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import gpu_next
import gpu_trainer
import measure
import numpy as np
import torch
from torch_geometric.nn import GraphSAGE

import graphzero as gz
from graphzero.train import TrainOptions

FANOUTS = [15, 10, 5]
REPEAT = 3
SKIP = 5  # batches before the clock starts
HORIZON = 31  # batches that a cache knows ahead
SIMULATED = 60  # batches
SLOW_LINK = 12e9  # bytes per second: PCIe 4 with 8 lanes
SHARES = (("a fifth of the rows", 0.2), ("all rows", 1))  # that the device keeps
PRECISIONS = ("float32", "bfloat16")


def rate(batches: Iterable[Any], step: Callable[[Any], None]) -> float:
    """Batches per second after the first ones."""
    count, start = 0, 0.0
    for batch in batches:
        if count == SKIP:
            torch.cuda.synchronize()
            start = time.perf_counter()
        step(batch)
        count += 1
    torch.cuda.synchronize()
    return (count - SKIP) / (time.perf_counter() - start)


def link_rate(count: int) -> float:
    """Bytes per second from page-locked memory to the GPU."""
    host = torch.empty(count, dtype=torch.uint8).pin_memory()
    there = torch.empty(count, dtype=torch.uint8, device="cuda")
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for i in range(12):
        if i == 2:
            begin.record()
        there.copy_(host, non_blocking=True)
    end.record()
    torch.cuda.synchronize()
    return 10 * count / (begin.elapsed_time(end) / 1000)


def check(here: Iterable[Any], there: Iterable[Any], count: int) -> None:
    """Batches on the GPU equal those on the CPU."""
    for a, b in itertools.islice(zip(here, there, strict=True), count):
        for key, value in a:
            if isinstance(value, torch.Tensor):
                assert b[key].device.type == "cuda", key
                assert torch.equal(value.cuda(), b[key]), key


class Shown(dict[str, float]):
    """Figures that are printed when they are known: a run may be stopped early."""

    def __setitem__(self, name: str, value: float) -> None:
        print(f"{name}: {value:.4g}", flush=True)
        super().__setitem__(name, value)


class Training:
    """A separate model in one precision; calling it with a batch runs a training step."""

    def __init__(self, dim: int, classes: int, precision: str) -> None:
        self.model = GraphSAGE(dim, 256, num_layers=3, out_channels=classes).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.precision = precision

    def __call__(self, batch: Any) -> None:
        half = torch.autocast("cuda", torch.bfloat16) if self.precision == "bfloat16" else contextlib.nullcontext()
        self.optimizer.zero_grad()
        with half:
            out = self.model(
                batch.x,
                batch.edge_index,
                num_sampled_nodes_per_hop=batch.num_sampled_nodes,
                num_sampled_edges_per_hop=batch.num_sampled_edges,
            )[: batch.batch_size]
            loss = torch.nn.functional.cross_entropy(out, batch.y)
        loss.backward()
        self.optimizer.step()


def thread_times() -> Counter[str]:
    """Milliseconds of processor time by kind of thread, of the threads that run now."""
    found: Counter[str] = Counter()
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it ended
            name = names.get(int(task.name), (task / "comm").read_text().strip())
            found[name] += int((task / "schedstat").read_text().split()[0]) / 1e6
    return found


def profile(batches: Any, step: Callable[[Any], None], skip: int, count: int) -> dict[str, Any]:
    """Per batch: milliseconds of threads, of kernels and copies on the device, and calls that wait for the device."""
    epoch = iter(batches)
    for batch in itertools.islice(epoch, skip):
        step(batch)
    before, start = thread_times(), time.perf_counter()
    for batch in itertools.islice(epoch, count):
        step(batch)
    rate, used = count / (time.perf_counter() - start), thread_times() - before
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as traced:
        for batch in itertools.islice(epoch, 20):
            step(batch)
    device, waits = Counter[str](), Counter[str]()
    for event in traced.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            device["copies" if event.name.startswith("Mem") else "kernels"] += event.device_time_total / 20e3
        elif "ynchronize" in event.name:
            waits[event.name] += 1
    epoch.close()
    return {
        "batches per second": round(rate, 1),
        "threads": {name: round(ms / count, 2) for name, ms in used.most_common() if ms / count > 0.05},
        "device": {name: round(ms, 2) for name, ms in device.items()},
        "waits": {name: calls / 20 for name, calls in waits.items()},
    }


def belady_misses(batches: list[np.ndarray], num_rows: int, slots: int, horizon: int) -> int:
    """Misses of a cache that keeps the rows which are used next within the horizon, with bypass."""
    never = np.int32(2**30)
    following = np.full(num_rows, never, np.int32)
    next_uses = []
    for number in range(len(batches) - 1, -1, -1):
        found = following[batches[number]]
        next_uses.append(np.where(found > number + horizon, never, found))
        following[batches[number]] = number
    next_uses.reverse()
    next_use = np.full(num_rows, never, np.int32)
    cached = np.zeros(num_rows, bool)
    misses = 0
    for ids, uses in zip(batches, next_uses, strict=True):
        misses += len(ids) - int(cached[ids].sum())
        next_use[ids] = uses
        rows = np.union1d(np.flatnonzero(cached), ids)
        if len(rows) > slots:
            # Where all is equal, what is cached stays.
            order = next_use[rows].astype(np.int64) * 2 + ~cached[rows]
            rows = rows[np.argpartition(order, slots)[:slots]]
        cached[:] = False
        cached[rows] = True
    return misses


def batch_bytes(batch: Any) -> int:
    """The bytes copied to the device per batch."""
    return sum(v.numel() * v.element_size() for _, v in batch if isinstance(v, torch.Tensor))


class Loaders:
    """Makes loaders over one dataset, and runs epochs of them."""

    def __init__(self, options: argparse.Namespace) -> None:
        if not (options.folder / "dataset.json").exists():
            sizes = {"nodes": options.nodes, "edges": options.edges, "dim": options.dim}
            gz.synthesize(options.folder, **sizes, seed=0, memory="16GB")
        self.options, self.data = options, gz.Dataset(options.folder)
        self.labels = torch.from_numpy(self.data.labels.copy())
        self.rows_bytes = options.nodes * options.dim * 4
        generator = torch.Generator().manual_seed(1)
        self.seeds = torch.randperm(options.nodes, generator=generator)[: 1024 * options.batches]
        self.last: Any = None  # statistics of the last epoch

    def __call__(self, features: Any = None, **extra: Any) -> gz.NeighborLoader:
        return gz.NeighborLoader(
            self.data.graph,
            self.data.features["x"] if features is None else features,
            fanouts=FANOUTS,
            labels=self.labels,
            seed=0,
            memory=self.options.memory,
            prefetch=self.options.prefetch,
            num_threads=self.options.threads,
            **{"seeds": self.seeds} | extra,
        )

    def best_epoch(self, step: Callable[[Any], None], **extra: Any) -> float:
        """Batches per second of the fastest epoch, after one that warms the loader up."""
        with self(**extra) as made:
            for batch in made:
                step(batch)
            found = max(rate(made, step) for _ in range(REPEAT))
            self.last = made.stats()
        print(self.last, self.last.device, flush=True)
        return found

    def check(self) -> None:
        """Compare batches on the GPU with those on the CPU."""
        for extra in ({}, *({"gpu_memory": share * self.rows_bytes} for share in (0.05, 0.2, 1))):
            with self() as here, self(device="cuda", **extra) as there:
                check(here, there, 40)

    def trained(self, step: Callable[[Any], None], **extra: Any) -> tuple[float, float]:
        """Batches per second of the fastest epoch of training, and of the last one if it is trained again.

        The same batches have the same sizes, for which cuBLASLt need not search for kernels again.
        """
        with self(**extra) as made:
            for batch in made:
                step(batch)
            found = max(rate(made, step) for _ in range(REPEAT))
            self.last, again = made.stats(), 0.0
            for _ in range(REPEAT - 1):
                made.set_epoch(REPEAT)
                again = max(again, rate(made, step))
        print(self.last, self.last.device, flush=True)
        return found, again

    def new_sizes(self, steps: dict[str, Callable[[Any], None]], size: float) -> dict[str, float]:
        """Batches per second of models whose batches are on the GPU, and have sizes that no batch had before."""
        count = int(min(80, torch.cuda.mem_get_info()[0] // 2 // size))
        found = dict.fromkeys(steps, 0.0)
        with self(device="cuda") as made:
            epoch = iter(made)
            for _ in range(REPEAT):
                some = list(itertools.islice(epoch, count))
                time.sleep(1)  # the loader's threads have filled their queue
                for name, step in steps.items():
                    found[name] = max(found[name], rate(some, step))
            epoch.close()
        return found

    def misses(self) -> float:
        """Misses of a cache with a fifth of the rows, relative to Belady's rule with the same horizon."""
        slots = self.options.nodes // 5
        with self(device="cuda", gpu_memory=self.rows_bytes // 5, seeds=self.seeds[: 1024 * SIMULATED]) as made:
            batches = [batch.n_id.cpu().numpy() for batch in made]
            found = made.stats().device["x"]
        return (found["rows"] - found["hits"]) / belady_misses(batches, self.options.nodes, slots, HORIZON)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=10_000_000)
    parser.add_argument("--edges", type=int, default=200_000_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--threads", type=int, help="loader threads (default: all processors)")
    parser.add_argument("--prefetch", type=int, help="batches to prefetch (default: the loader's)")
    parser.add_argument("--memory", default="40GB")
    parts = ("plain", "cache", "profile", "next", "trainer")
    parser.add_argument("--only", choices=parts, help="part to run (default: plain and cache)")
    parser.add_argument("--check", action="store_true", help="compare batches with those on the CPU first")
    parser.add_argument("--cpu", action="store_true", help="with --only next or trainer: without a GPU")
    parser.add_argument("--pause", type=float, default=0.02, help="with --only next: seconds between two batches")
    parser.add_argument("--json")
    options = parser.parse_args()
    loader = Loaders(options)
    if options.check or options.only is None:
        loader.check()
    if options.only == "next":
        kinds: dict[str, Callable[[Any], None]] = {"asleep": lambda batch: time.sleep(options.pause)}
        if not options.cpu:
            kinds["training in bfloat16"] = Training(options.dim, int(loader.labels.max()) + 1, "bfloat16")
        gpu_next.main(loader, loader.rows_bytes, "cpu" if options.cpu else "cuda", options.batches, kinds)
        return
    figures = Shown()
    if options.only == "trainer":
        shares = [(title, int(share * loader.rows_bytes)) for title, share in (("no rows", 0), *SHARES)]
        training = TrainOptions(
            hidden=256, fanouts=FANOUTS, dropout=0.0, batch_size=1024, epochs=gpu_trainer.EPOCHS, memory=options.memory,
            prefetch=options.prefetch, num_threads=options.threads, device="cpu" if options.cpu else "cuda",
        )  # fmt: skip
        for name, value in gpu_trainer.main(
            loader, loader.data, loader.seeds.numpy(), training, shares[:1] if options.cpu else shares
        ).items():
            figures[name] = value
        measure.save(options.json, figures, options.folder)
        return
    if options.only in ("cache", None):
        figures["misses, relative to Belady's rule"] = loader.misses()
    with loader(device="cuda") as made:
        some = list(itertools.islice(made, 6))
    size = sum(map(batch_bytes, some)) / len(some)
    nodes = sum(batch.num_nodes for batch in some) // len(some)
    print(f"{nodes:,} nodes and {size / 1e6:.0f} MB a batch", flush=True)
    figures["link"] = link_rate(int(size)) / size
    classes = int(loader.labels.max()) + 1
    steps = {name: Training(options.dim, classes, name) for name in PRECISIONS}
    for name, step in steps.items():
        figures[f"model alone, {name}"] = max(
            rate(itertools.islice(itertools.cycle(some), options.batches), step) for _ in range(REPEAT)
        )
    del some
    for name, value in loader.new_sizes(steps, size).items():
        figures[f"model alone, {name}, new sizes"] = value
    if options.only == "profile":
        for title, share in SHARES:
            for name, step in {"loader": lambda batch: None, **steps}.items():
                with loader(device="cuda", gpu_memory=int(share * loader.rows_bytes)) as made:
                    print(f"{title}, {name}: {profile(made, step, 80, options.batches - 100)}", flush=True)
        return
    figures["sampling alone"] = loader.best_epoch(lambda batch: None, features={})
    bounds = {}

    def train(title: str, name: str, bound: str, **extra: Any) -> None:
        again = f"{title}, an epoch again"
        figures[title], figures[again] = loader.trained(steps[name], **extra)
        bounds[title] = min(figures[f"model alone, {name}, new sizes"], figures[bound])
        bounds[again] = min(figures[f"model alone, {name}"], figures[bound])

    if options.only != "cache":
        figures["loader on the CPU"] = loader.best_epoch(lambda batch: None)
        figures["loader to the GPU"] = loader.best_epoch(lambda batch: None, device="cuda")
        bounds["loader to the GPU"] = min(figures["loader on the CPU"], figures["link"])
        for name in steps:
            train(f"training, {name}", name, "loader to the GPU", device="cuda")
        plain = steps["bfloat16"]
        title = "training, bfloat16, batch.to('cuda') in the loop"
        figures[title] = loader.best_epoch(lambda batch: plain(batch.to("cuda")))
    if options.only != "plain":
        for title, share in SHARES:
            cache = {"device": "cuda", "gpu_memory": int(share * loader.rows_bytes)}
            figures[f"{title}: loader to the GPU"] = loader.best_epoch(lambda batch: None, **cache)
            crossed = loader.last.copy_to_device_bytes / loader.last.batches
            found = loader.last.device["x"]
            figures[f"{title}: hits, of 1"] = found["hits"] / found["rows"]
            figures[f"{title}: MB per batch across the link"] = crossed / 1e6
            slow = min(SLOW_LINK / crossed, figures[f"{title}: loader to the GPU"])
            figures[f"{title}: a link of 12 GB/s"] = slow
            bounds[f"{title}: a link of 12 GB/s"] = SLOW_LINK / size
            for name in steps:
                train(f"{title}: training, {name}", name, "sampling alone", **cache)
            padded = f"{title}: training, bfloat16, padded nodes"
            figures[padded] = loader.best_epoch(steps["bfloat16"], pad_nodes=True, **cache)
            bounds[padded] = min(figures["model alone, bfloat16"], figures["sampling alone"])
    rows = [
        (name, f"{value:.4g}", f"{value / bounds[name]:.2f} of its bound" if name in bounds else "")
        for name, value in figures.items()
    ]
    keeps = " that keeps rows" if options.only == "cache" else ""
    title = (
        f"Feeding {torch.cuda.get_device_name()}{keeps} ({nodes:,} nodes and {size / 1e6:.0f} MB a batch), batches/s"
    )
    measure.show(title, rows, options.folder)
    measure.save(options.json, figures, options.folder)


if __name__ == "__main__":
    main()
