"""Code that several packages share: ids of strings, the definition to which a name refers, and cycles of graphs."""
