"""Models as Arrow tables: their definitions, the walk that fills them, and their export."""
