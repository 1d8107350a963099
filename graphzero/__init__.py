"""GraphZero: train graph neural networks on graphs that do not fit in RAM.

Compile a graph once into `.gl` (topology) and `.gd` (features) files, mount them instantly, and feed PyTorch from the
SSD within a RAM budget that you set.
"""

from __future__ import annotations

try:
    from . import _core as _core
except ImportError:
    from ._native_module import explain_missing as _explain_missing

    if (_text := _explain_missing()) is None:
        raise
    raise ImportError(_text, name="graphzero._core") from None

from . import analytics
from .args.dtypes import DataType
from .compile.features import FeatureReport, compile_features, convert_csv_to_gd
from .compile.graph import GraphReport, compile_graph, convert_csv_to_gl
from .compile.reorder import reorder
from .compile.synth import synthesize
from .dataset.append import AppendReport, CompactReport
from .dataset.columns import Column, pack_columns
from .dataset.dataset import Dataset
from .dataset.task_table import TaskTable
from .embedding import Neighbours, embed, neighbours
from .errors import BudgetError, FormatError, GraphZeroError, InputError, MissingFileError, StorageError
from .importing import ImportReport, export_dataset, import_dataset
from .infer.inference import InferenceReport, inference
from .load.batch import Batch, HeteroBatch
from .load.loader import LinkNeighborLoader, LoaderGroup, NeighborLoader
from .load.stats import LoaderStats
from .machine.memory import MemoryReport, memory_report
from .sample.links import HeteroLinkSubgraph, LinkSubgraph
from .sample.subgraph import Generator, Subgraph
from .sample.walks import Pairs, walk_pairs
from .stores.features import FeatureStore
from .stores.graph import Graph
from .stores.hetero import HeteroGraph, HeteroSubgraph
from .stores.idmap import IdMap
from .stores.verify import VerifyReport, verify

__version__ = "1.0.0"

__all__ = [
    "AppendReport",
    "Batch",
    "BudgetError",
    "Column",
    "CompactReport",
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
    "Neighbours",
    "Pairs",
    "StorageError",
    "Subgraph",
    "TaskTable",
    "VerifyReport",
    "__version__",
    "analytics",
    "compile_features",
    "compile_graph",
    "convert_csv_to_gd",
    "convert_csv_to_gl",
    "embed",
    "export_dataset",
    "import_dataset",
    "inference",
    "memory_report",
    "neighbours",
    "pack_columns",
    "reorder",
    "synthesize",
    "verify",
    "walk_pairs",
]
