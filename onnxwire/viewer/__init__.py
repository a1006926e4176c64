"""Local pages that show, compare and edit models in a browser; models in notebooks; the HTML report."""
