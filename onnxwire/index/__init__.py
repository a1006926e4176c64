"""Code that several packages share: numbers for strings, the definition of each name, and cycles of graphs."""
