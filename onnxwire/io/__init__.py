"""Loading, saving and verifying models, and the files beside them."""
