"""Changes models: assigns, renames, extracts."""
