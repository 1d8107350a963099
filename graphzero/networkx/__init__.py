"""A NetworkX backend: `nx.pagerank(gz.Graph("graph.gl"))` runs on the file, without a conversion.

NetworkX finds it by entry points of the installed package; see the guide "NetworkX".
"""
