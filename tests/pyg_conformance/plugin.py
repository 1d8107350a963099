"""A pytest plugin that puts GraphZero's sampler in the place of PyG's, so that PyG's own tests judge it.

The stub `pyg_lib` has to be importable too, for PyG's tests skip what needs pyg-lib; its operators fail here, which
shows that no test came past us to PyG's own sampler.
"""

import pyg_lib
import torch
import torch_geometric.loader.link_neighbor_loader
import torch_geometric.loader.neighbor_loader
import torch_geometric.sampler
import torch_geometric.sampler.neighbor_sampler

from graphzero.pyg import NeighborSampler

for module in (
    torch_geometric.sampler,
    torch_geometric.sampler.neighbor_sampler,
    torch_geometric.loader.neighbor_loader,
    torch_geometric.loader.link_neighbor_loader,
):
    module.NeighborSampler = NeighborSampler


def _refuse(*_args, **_options):
    raise AssertionError("PyG's own sampler was used, expected graphzero.pyg.NeighborSampler")


class _Operators:
    neighbor_sample = staticmethod(_refuse)
    hetero_neighbor_sample = staticmethod(_refuse)


assert pyg_lib.__version__
torch.ops.pyg = _Operators()
