"""Ways to other packages, none of which onnxwire needs: one file each."""
