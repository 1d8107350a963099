"""Properties of this machine: memory and its limits, the disk, ranks; doctor and estimates."""
