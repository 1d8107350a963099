"""Where the time of an epoch went, as `NeighborLoader.stats()` reports it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ..args.html_table import html_table
from ..args.progress import duration
from ..args.sizes import format_size

__all__ = ["LoaderStats"]

_SMALL_WAIT = 0.15  # of an epoch: the wait for its first batches may take as much, and does not bound it


@dataclass(frozen=True)
class LoaderStats:
    """Where an epoch's time went. Seconds of sampling, reading and copying are summed over the loader's threads.

    With a CUDA device, copying to it is a separate stage: `copy_to_device_seconds` is the time of the copies on the
    device's clock, `host_wait_seconds` the time spent waiting for batches to be built, `copy_wait_seconds` for copies
    to complete, `step_wait_seconds` for your steps to finish with earlier batches, and `launch_seconds` the time in
    which `next()` started copies and made the tables that keep rows there.

    `device` has, for each part whose rows the device keeps (`gpu_memory`): `rows` that batches needed, `hits` that the
    device had, `admitted` others that it kept afterwards, its `slots` and the `bytes` they take, and
    `reads_host`: whether it reads the rows that it lacks from RAM by itself.

    `held_bytes` is what the loader (or its group) holds now. `next_epoch` is the epoch of this loader that memory and
    threads are held for between two loops, None where they are not.
    """

    batches: int = 0
    nodes: int = 0
    edges: int = 0
    sample_seconds: float = 0.0
    read_seconds: float = 0.0
    copy_seconds: float = 0.0
    blocked_seconds: float = 0.0
    starved_seconds: float = 0.0
    consumer_seconds: float = 0.0
    copy_to_device_seconds: float = 0.0
    copy_to_device_bytes: int = 0
    host_wait_seconds: float = 0.0
    copy_wait_seconds: float = 0.0
    step_wait_seconds: float = 0.0
    launch_seconds: float = 0.0
    queue_depth: float = 0.0
    rows: int = 0
    rows_mapped: int = 0
    rows_cached: int = 0
    bytes_useful: int = 0
    bytes_read: int = 0
    reads: int = 0
    peak_bytes: int = 0
    remade: int = 0
    topology_bytes_read: int = 0
    held_bytes: int = 0
    next_epoch: int | None = None
    plan: dict[str, Any] = field(default_factory=dict)
    device: dict[str, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        raw: dict[str, Any] | None,
        plan: dict[str, Any] | None,
        copied: dict[str, Any] | None = None,
        kept: dict[str, dict[str, Any]] | None = None,
        **held: Any,
    ) -> LoaderStats:
        """Make it from what the core counted and, with a CUDA device, what the stage that copies to it did.

        `kept` has, for each part, what the device keeps of it.
        """
        raw = {} if raw is None else dict(raw)
        counts = raw.pop("device", []) or [dict.fromkeys(("rows", "hits", "admitted"), 0)] * len(kept or {})
        held["device"] = {name: count | kept[name] for name, count in zip(kept, counts, strict=True)} if kept else {}
        if not raw:
            return cls(plan=plan or {}, **held)
        depth = raw.pop("depth_sum") / max(raw["batches"], 1)
        if copied:  # the core's consumer is then what copies
            raw |= {"host_wait_seconds": raw["starved_seconds"]} | copied
        return cls(queue_depth=depth, plan=plan or {}, **raw, **held)

    @property
    def hit_rate(self) -> float:
        """The share of rows that were in RAM: in the page cache, or in the loader's own copy of the whole array."""
        return (self.rows_cached + self.rows_mapped) / self.rows if self.rows else 0.0

    @property
    def tiers(self) -> dict[str, dict[str, float]]:
        """What came from where: rows, the share of all rows, bytes, and GB/s of device, host and disk."""
        on_device = sum(part["hits"] for part in self.device.values())
        total = max(self.rows + on_device, 1)
        cached = self.rows_cached + self.rows_mapped
        from_host = self.copy_seconds
        if any(part.get("reads_host") for part in self.device.values()):  # the device copies, and not the host
            from_host += self.copy_to_device_seconds
        bytes_on_device = sum(part["hits"] * part["row_bytes"] for part in self.device.values())
        seconds = self.starved_seconds + self.consumer_seconds
        of = (
            ("device", on_device, bytes_on_device, seconds),
            ("host", cached, self.bytes_useful * self.hit_rate, from_host),
            ("disk", self.rows - cached, self.bytes_read, self.read_seconds),
        )
        return {
            name: {
                "rows": rows,
                "share": rows / total,
                "bytes": size,
                "gb_per_second": size / took / 1e9 if took else 0,
            }
            for name, rows, size, took in of
        }

    @property
    def read_amplification(self) -> float:
        """Bytes read from the disk per byte requested from it."""
        missed = self.bytes_useful * (1 - self.hit_rate)
        return self.bytes_read / missed if missed > 0 else 0.0

    @property
    def batches_per_second(self) -> float:
        """Batches delivered per second, including your own step."""
        seconds = self.starved_seconds + self.consumer_seconds
        return self.batches / seconds if seconds > 0 else 0.0

    @property
    def copy_to_device_gb_per_second(self) -> float:
        """Gigabytes (10^9 bytes) per second while copies to the device ran."""
        return self.copy_to_device_bytes / self.copy_to_device_seconds / 1e9 if self.copy_to_device_seconds > 0 else 0.0

    @property
    def bottleneck(self) -> str:
        """What an epoch waits for: a stage such as 'copy to device' or 'sampling', 'training step' or 'nothing yet'."""
        if self.batches == 0:
            return "nothing yet"
        waits = {
            "training step": self.step_wait_seconds,
            "copy to device": self.copy_wait_seconds,
            "starting copies": self.launch_seconds,
            "the host": self.host_wait_seconds,
        }
        longest = max(waits, key=lambda what: waits[what]) if self.copy_to_device_bytes > 0 else "the host"
        if longest in ("training step", "copy to device") and waits[longest] > 0:
            return longest
        if self.starved_seconds < _SMALL_WAIT * (self.starved_seconds + self.consumer_seconds):
            return "training step"
        if longest == "starting copies" and waits[longest] > 0:
            return longest
        stages = {"sampling": self.sample_seconds, "reading": self.read_seconds, "copying": self.copy_seconds}
        return max(stages, key=lambda stage: stages[stage])

    @property
    def _kept(self) -> int:
        return sum(part["bytes"] for part in self.device.values())

    def to_dict(self) -> dict[str, Any]:
        """Everything, derived figures included, ready for JSON."""
        rates = ("read_amplification", "batches_per_second", "copy_to_device_gb_per_second")
        derived = ("hit_rate", *rates, "bottleneck", "tiers")
        return asdict(self) | {name: getattr(self, name) for name in derived}

    def _repr_html_(self) -> str:
        """Return a table of the most important figures, for notebooks."""
        sizes = {"bytes read": self.bytes_read, "topology read": self.topology_bytes_read, "held now": self.held_bytes}
        stages = (self.sample_seconds, self.read_seconds, self.copy_seconds)
        rows = [
            ("batches", f"{self.batches:,}, {self.batches_per_second:.1f} per second"),
            ("waiting for", self.bottleneck),
            ("you waited", duration(self.starved_seconds)),
            ("your steps took", duration(self.consumer_seconds)),
            ("sample, read, copy", ", ".join(map(duration, stages))),
            ("rows", f"{self.rows:,}, {self.hit_rate:.1%} from RAM"),
            *((name, format_size(size)) for name, size in sizes.items() if size),
        ]
        if self.bytes_read:
            rows.append(("read amplification", f"{self.read_amplification:.1f}"))
        if self.device:
            rows.append(("kept on the device", format_size(self._kept)))
            for name, tier in self.tiers.items():
                rate = f"{tier['gb_per_second']:.1f} GB/s"
                share = f"{int(tier['rows']):,} rows, {tier['share']:.1%}"
                rows.append((f"from the {name}", f"{share}, {format_size(int(tier['bytes']))}, {rate}"))
        if self.copy_to_device_bytes:
            rows.append(("copied to device", f"{self.copy_to_device_gb_per_second:.1f} GB/s"))
        return html_table("LoaderStats", rows, note=str(self.plan.get("why", "")))

    def __str__(self) -> str:
        """Return a short summary."""
        copied = ""
        if self.device:
            tiers = ", ".join(f"{tier['share']:.1%} {name}" for name, tier in self.tiers.items())
            copied = f"\n  rows by tier: {tiers}; the device keeps {format_size(self._kept)}"
        if self.copy_to_device_bytes:
            copied += (
                f"\n  {format_size(self.copy_to_device_bytes)} to the device in {self.copy_to_device_seconds:.2f} s, "
                f"{self.copy_to_device_gb_per_second:.1f} GB/s"
            )
        return (
            f"{self.batches} batches, {self.batches_per_second:.1f}/s, waiting for: {self.bottleneck}\n"
            f"  sample {self.sample_seconds:.2f} s, read {self.read_seconds:.2f} s, copy {self.copy_seconds:.2f} s, "
            f"threads idle {self.blocked_seconds:.2f} s\n"
            f"  you waited {self.starved_seconds:.2f} s, your steps took {self.consumer_seconds:.2f} s, "
            f"{self.queue_depth:.1f} batches ready on average\n"
            f"  {self.rows:,} rows, {self.hit_rate:.1%} from RAM, {format_size(self.bytes_read)} read in "
            f"{self.reads:,} reads ({self.read_amplification:.1f} x what was missing){copied}"
        )
