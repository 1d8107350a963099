"""GraphZero: train graph neural networks on graphs that do not fit in RAM.

Compile a graph once into `.gl` (topology) and `.gd` (features) files, mount them instantly, and feed PyTorch from the
SSD within a RAM budget that you set.
"""

from __future__ import annotations

try:
    from . import _core as _core
except ImportError as _error:
    from ._native_module import explain_missing as _explain_missing

    if (_text := _explain_missing()) is None:
        raise
    raise ImportError(_text, name="graphzero._core") from _error

from ._dtypes import DataType
from .batch import Batch
from .checks import VerifyReport, verify
from .columns import Column, pack_columns
from .compile import GraphReport, compile_graph, convert_csv_to_gl
from .compile_rows import FeatureReport, compile_features, convert_csv_to_gd
from .dataset import Dataset
from .errors import BudgetError, FormatError, GraphZeroError, InputError, MissingFileError, StorageError
from .features import FeatureStore
from .graph import Graph
from .hetero import HeteroGraph, HeteroSubgraph
from .hetero_batch import HeteroBatch
from .idmap import IdMap
from .importing import ImportReport, export_dataset, import_dataset
from .inference import InferenceReport, inference
from .link_loader import LinkNeighborLoader
from .links import HeteroLinkSubgraph, LinkSubgraph
from .loader import LoaderStats, NeighborLoader
from .loader_group import LoaderGroup
from .memory import MemoryReport, memory_report
from .reorder import reorder
from .sampling import Generator, Subgraph
from .synth import synthesize
from .task_table import TaskTable
from .walks import Pairs, walk_pairs

__version__ = "1.0.0"

__all__ = [
    "Batch",
    "BudgetError",
    "Column",
    "DataType",
    "Dataset",
    "FeatureReport",
    "FeatureStore",
    "FormatError",
    "Generator",
    "Graph",
    "GraphReport",
    "GraphZeroError",
    "HeteroBatch",
    "HeteroGraph",
    "HeteroLinkSubgraph",
    "HeteroSubgraph",
    "IdMap",
    "ImportReport",
    "InferenceReport",
    "InputError",
    "LinkNeighborLoader",
    "LinkSubgraph",
    "LoaderGroup",
    "LoaderStats",
    "MemoryReport",
    "MissingFileError",
    "NeighborLoader",
    "Pairs",
    "StorageError",
    "Subgraph",
    "TaskTable",
    "VerifyReport",
    "__version__",
    "compile_features",
    "compile_graph",
    "convert_csv_to_gd",
    "convert_csv_to_gl",
    "export_dataset",
    "import_dataset",
    "inference",
    "memory_report",
    "pack_columns",
    "reorder",
    "synthesize",
    "verify",
    "walk_pairs",
]
