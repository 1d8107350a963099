"""No operators: PyG asks for each by name and does without."""
