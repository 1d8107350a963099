"""A pytest plugin that puts GraphZero's loaders in the place of PyG's, so that PyG's own tests judge them.

Where a test allows it, batches then come from the native loader. As in plugin.py, PyG's own sampler fails.
"""

import plugin  # noqa: F401  # the sampler too, for what asks for it by name
import torch_geometric.loader

import graphzero.pyg

torch_geometric.loader.NeighborLoader = graphzero.pyg.NeighborLoader
torch_geometric.loader.LinkNeighborLoader = graphzero.pyg.LinkNeighborLoader
