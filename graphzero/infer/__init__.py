"""Outputs for every node, from file to file."""
