from onnxwire.tensor.storage import Array

# Returns the minimum, maximum, number of zeros, total, and sum of the squared distances from the mean.
def sum_block(data: Array, kind: str) -> tuple[float, float, int, float, float]: ...
