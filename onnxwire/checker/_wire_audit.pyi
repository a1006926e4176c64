from onnxwire.checker._facts import Facts

# Returns structs `Anomaly` of _wire_audit.pyx.
def audit_wire(facts: Facts) -> bytes: ...
