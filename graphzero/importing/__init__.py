"""Import what people have: name a file, a folder or an object, get a dataset."""

from __future__ import annotations

from ..exporting.export import export_dataset
from .run import ImportReport, import_dataset

__all__ = ["ImportReport", "export_dataset", "import_dataset"]
