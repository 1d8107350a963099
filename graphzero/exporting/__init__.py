"""Exports datasets to formats of other projects."""
