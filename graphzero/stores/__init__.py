"""Mounted files: graphs, features, id maps."""
