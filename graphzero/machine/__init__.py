"""What this machine has: memory and its limits, the disk, ranks; doctor and estimates."""
