"""Run PyG's own tests of samplers, loaders and stores on GraphZero, unmodified: make pyg-conformance PYG=<checkout>.

Three ways: (a) PyG's NeighborSampler over a stand-in for pyg-lib whose operators are ours; (b) our sampler in the place
of PyG's; (c) our loaders in the place of PyG's. The package under test is the checkout's own, so that its tests meet
the version they were written for.
"""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = (
    "test/loader/test_neighbor_loader.py",
    "test/loader/test_link_neighbor_loader.py",
    "test/loader/test_zip_loader.py",
    "test/sampler",
    "test/data/test_feature_store.py",
    "test/data/test_graph_store.py",
    "test/utils/test_trim_to_layer.py",
)
WAYS = {
    "PyG's sampler on our operators": [],
    "our sampler in PyG's loaders": ["-p", "plugin"],
    "our loaders": ["-p", "loaders_plugin"],
}


def main() -> int:
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "torch_geometric").is_dir():
        print(__doc__.splitlines()[0], "\nexpected the path of a checkout of pytorch_geometric", file=sys.stderr)
        return 2
    checkout = Path(sys.argv[1]).resolve()
    faults = 0
    for way, options in WAYS.items():
        outcomes, reasons = run(checkout, options, sys.argv[2:])
        total = Counter(outcomes.values())
        print(f"{way}: {total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
        for name, reason in reasons.items():
            if outcomes[name] == "failed":
                print(f"  failed: {name}: {reason}")
        for reason, count in Counter(reasons[name] for name in reasons if outcomes[name] == "skipped").items():
            print(f"  skipped {count}: {reason}")
        faults += total["failed"] + (not total["passed"])
    return 1 if faults else 0


def run(checkout: Path, options: list[str], more: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the outcome of every test, and why those did not pass that did not."""
    paths = [str(HERE.parents[1]), str(HERE / "stub"), str(HERE), str(checkout)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-o", "filterwarnings=ignore"]
        command += ["-p", "no:cacheprovider", f"--junitxml={report}", *options, *FILES, *more]
        done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
        if not os.path.exists(report):
            raise SystemExit(done.stdout + done.stderr)
        outcomes, reasons = {}, {}
        for case in ElementTree.parse(report).iter("testcase"):
            name = f"{case.get('classname')}::{case.get('name')}"
            fault = next((e for e in case if e.tag in ("failure", "error", "skipped")), None)
            kind = "passed" if fault is None else "skipped" if fault.tag == "skipped" else "failed"
            outcomes[name] = kind
            if fault is not None:
                reasons[name] = (fault.get("message") or "").strip().splitlines()[0][:160]
    return outcomes, reasons


if __name__ == "__main__":
    sys.exit(main())
