from typing import final

# The capsule `onnxwire._c_api`; include/onnxwire_python.h describes its functions.
CAPSULE: object

@final
class Export: ...  # the owner of the pieces of one encoding
