"""Compile and inference on the workers of a Ray cluster, over files in a shared folder.

The results are those of one machine: `compile_graph` writes the same bytes as `graphzero.compile_graph`. Tasks only
read and write files, so a task whose worker died is retried. Needs `pip install 'graphzero[ray]'`.

>>> import graphzero.ray
>>> graphzero.ray.compile_graph("edges/", "graph.gl", memory="2GB")  # doctest: +SKIP
"""

from .compile import compile_graph
from .inference import inference

__all__ = ["compile_graph", "inference"]
