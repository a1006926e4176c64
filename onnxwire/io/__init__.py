"""Load, save and verify models and their external data files."""
