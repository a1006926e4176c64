"""Models as Arrow tables: what the tables are, the walk that fills them, and the C structs that others take them by."""
