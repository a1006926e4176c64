"""The local page that shows a model, and the HTML report: queries, the server that answers them, its files."""
