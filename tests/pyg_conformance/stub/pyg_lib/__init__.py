"""A stand-in for pyg-lib whose two sampling operators run on GraphZero: PyG's own NeighborSampler then runs on us.

PyG looks for the package, the signature of `sampler.neighbor_sample`, and `torch.ops.pyg`; this gives it just those.
"""

import torch

from . import ops, sampler

__all__ = ["ops", "sampler"]
__version__ = "0.6.0"


class _Operators:
    neighbor_sample = staticmethod(sampler.neighbor_sample)
    hetero_neighbor_sample = staticmethod(sampler.hetero_neighbor_sample)


torch.ops.pyg = _Operators()
