"""The local page that shows a model, and the report of one: queries, the server that answers them, files it serves."""
