"""Edges and rows from wherever they are, as blocks of arrays."""
