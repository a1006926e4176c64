"""Models as Arrow tables: the definitions of the tables, the walk that fills them, and their export."""
