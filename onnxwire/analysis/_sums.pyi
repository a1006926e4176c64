from onnxwire.tensor.storage import Array

# Returns the minimum, maximum, number of zeros, sum, and sum of the squared distances from the mean.
# data: the bytes of the numbers. kind: their numpy type, such as "f4".
def sum_block(data: Array, kind: str) -> tuple[float, float, int, float, float]: ...
