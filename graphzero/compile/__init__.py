"""Edges to `.gl` files, rows to `.gd` files; reordered and synthetic datasets."""
