"""Datasets to files of other projects."""
