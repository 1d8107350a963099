"""Dataset folders: the manifest, the files it names, and their writers."""
