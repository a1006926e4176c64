"""The local page that shows a model (queries, the server, the page's files), and the HTML report."""
