"""Files of a dataset that are opened by their path: they do not show what was appended to them, which is said."""

from __future__ import annotations

import json
import os
import warnings

__all__ = ["warn_of_deltas"]

_MANIFEST = "dataset.json"
_DEEPEST = 4  # folders between a file and the manifest that names it: v2-3f9a1c2b/features/paper/x.gd
_MOST_BYTES = 8 << 20


def warn_of_deltas(path: str) -> None:
    """Warn if `path` is a file of a dataset that has been appended to."""
    folder = os.path.dirname(path)
    for _ in range(_DEEPEST):
        manifest = os.path.join(folder, _MANIFEST)
        if os.path.isfile(manifest):
            break
        folder = os.path.dirname(folder)
    else:
        return
    file = os.path.relpath(path, folder).replace(os.sep, "/")
    try:
        with open(manifest, "rb") as f:
            raw = f.read(_MOST_BYTES)
        if b'"deltas"' not in raw or file not in json.loads(raw).get("deltas", {}):
            return
    except (OSError, ValueError, AttributeError, TypeError):
        return  # Dataset says what is wrong with it
    warnings.warn(
        f"{path}: has been appended to, and the file alone does not show it; open gz.Dataset({folder!r}) instead, or "
        "fold the appends with its compact()",
        stacklevel=4,
    )
