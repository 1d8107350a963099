"""GraphZero for PyG users: samplers, stores and loaders with PyG's names and signatures, over mounted files.

Needs PyG (`pip install 'graphzero[pyg]'`), and neither pyg-lib nor torch-sparse.

>>> from graphzero.pyg import NeighborLoader  # instead of torch_geometric.loader  # doctest: +SKIP
>>> loader = NeighborLoader(data, [15, 10], input_nodes=data.train_mask, batch_size=1024)  # doctest: +SKIP
"""

from __future__ import annotations

try:
    import torch_geometric  # noqa: F401
except ImportError as error:
    raise ImportError("graphzero.pyg needs PyG: pip install 'graphzero[pyg]'") from error

from .loaders import LinkNeighborLoader, NeighborLoader
from .sampler import NeighborSampler
from .stores import FeatureStore, GraphStore

__all__ = ["FeatureStore", "GraphStore", "LinkNeighborLoader", "NeighborLoader", "NeighborSampler"]
