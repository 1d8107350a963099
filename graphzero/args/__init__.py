"""What users pass, checked and converted: ids, sizes, dtypes, destinations, progress."""
