"""Code that several packages share: ids of strings, definitions and producers of values, and cycles of graphs."""
