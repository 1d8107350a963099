"""Dataset folders: the manifest, what it names, and how one is written."""
