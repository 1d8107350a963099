"""Examples at the end of each command's --help."""

from __future__ import annotations

__all__ = ["epilog"]

_EXAMPLES = {
    "quickstart": ("graphzero quickstart", "graphzero quickstart my-folder --no-browse"),
    "demo": ("graphzero demo", "graphzero demo big --nodes 10000000 --memory 500MB --limit 2GB"),
    "synth": (
        "graphzero synth toy --nodes 10000 --edges 100000 --dim 32",
        "graphzero synth papers --preset papers100M --scale 0.01 --dtype float16",
    ),
    "compile": (
        "graphzero compile edges.csv graph.gl --direction both --memory 1GB",
        "graphzero compile features.npy x.gd --dtype float16",
    ),
    "inspect": ("graphzero inspect shop --out shop/keys.yaml",),
    "import": (
        "graphzero import edges.csv mine --features x.npy --labels y.npy --splits 60/20/20",
        "graphzero import edges.csv mine --nodes people.csv --label churned --splits 60/20/20",
        "graphzero import shop.yaml shop --reverse",
    ),
    "append": (
        "graphzero append mine --edges new.csv",
        "graphzero append mine --nodes 100 --features x.npy --labels y.npy --edges new.csv --split train",
        "graphzero append mine --remove-edges old.csv",
    ),
    "compact": ("graphzero compact mine",),
    "export": (
        "graphzero export mine mine-parquet",
        "graphzero export mine embeddings.csv --rows embeddings.gd",
    ),
    "reorder": ("graphzero reorder papers papers-hot --fanouts 15,10",),
    "info": ("graphzero info mine", "graphzero info graph.gl --json"),
    "stats": ("graphzero stats graph.gl", "graphzero stats mine --html stats.html"),
    "verify": ("graphzero verify mine",),
    "train": (
        "graphzero train mine --report run.html",
        "graphzero train mine --fanouts 15,10,5 --hidden 256 --epochs 30 --patience 5 --memory 2GB",
        "graphzero train mine --task links",
        "graphzero train mine --checkpoint run.npz --resume",
    ),
    "predict": (
        "graphzero predict mine --out predictions.csv",
        "graphzero predict mine --checkpoint run.npz --out predictions.gd",
    ),
    "embed": (
        "graphzero embed mine --out vectors.gd --dim 64 --export vectors.parquet",
        "graphzero embed graph.gl --out vectors.gd --q 0.5 --memory 4GB",
    ),
    "report": (
        "graphzero report mine/runs/1.npz --out run.html",
        "graphzero report mine --out runs.html",
    ),
    "doctor": ("graphzero doctor", "graphzero doctor mine --fanouts 15,10 --check"),
}


def epilog(command: str) -> str:
    """Return the end of a command's help: an example per paragraph, which keeps each on a line of its own."""
    return "\n\n".join(["Examples:", *_EXAMPLES[command]])
