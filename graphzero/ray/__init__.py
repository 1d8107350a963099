"""Compile and inference on the workers of a Ray cluster, over files in a folder that all of them see.

The results are those of one machine: `compile_graph` writes the very bytes of `graphzero.compile_graph`. Tasks read and
write files alone, so one that dies with its worker is simply run again. Needs `pip install 'graphzero[ray]'`.

>>> import graphzero.ray
>>> graphzero.ray.compile_graph("edges/", "graph.gl", memory="2GB")  # doctest: +SKIP
"""

from .compile import compile_graph
from .inference import inference

__all__ = ["compile_graph", "inference"]
