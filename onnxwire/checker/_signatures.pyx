# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Compares nodes with the signatures of their operators, in one pass over the columns in the order of the nodes.

Types are numbers; 0 is an unknown type. The pass sets the types of outputs that share a type with an input, so that
later nodes know them. In an unsorted graph, an input stays unknown if its producer comes later.
"""
from cython cimport critical_section
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from onnxwire.checker._facts cimport Facts, List, Run
from onnxwire.index.interning cimport Texts

cdef enum:
    MAX_VARIABLES = 64                # maximum number of an operator's type variables, and of its attributes

    # Faults of a node; `signature.py` has the same numbers.
    TOO_FEW_OR_MANY_INPUTS = 1
    TOO_FEW_OR_MANY_OUTPUTS = 2
    LACKS_ATTRIBUTE = 4
    # Faults of an input or output.
    OMITTED = 1
    WRONG_TYPE = 2
    OTHER_TYPE = 4           # its type differs from that of a parameter with the same type variable
    # Faults of an attribute.
    UNKNOWN = 1
    WRONG_KIND = 2

    SINGLE = 0
    OPTIONAL = 1
    VARIADIC = 2

# Rows of the tables that the pass reads, all of int32.
cdef struct Signature:
    int32_t inputs, n_inputs, outputs, n_outputs, attributes, n_attributes
    int32_t min_inputs, max_inputs, min_outputs, max_outputs  # a maximum of -1: no limit
    int32_t refused, n_inputs_refused, n_outputs_refused            # indexes of `refused`
    int32_t variables
    int32_t is_open          # undeclared attributes are allowed

cdef struct Parameter:
    int32_t types            # row of `sets`
    int32_t variable         # -1 for none
    int32_t option
    int32_t only             # the only allowed type, or 0 if there are several

cdef struct Attribute:
    int32_t name             # id of the string, -1 if the document does not contain it
    int32_t kind
    int32_t is_required


cdef struct Tables:
    const Signature* signatures
    const Parameter* parameters
    const Attribute* attributes
    const int32_t* refused
    const uint8_t* sets      # one row of `width` types for each set
    int32_t width


cdef inline bint allows(
    const Tables* tables, int32_t first, int32_t n, int32_t least, int32_t most, int32_t count
) noexcept nogil:
    cdef int32_t i
    if count < least or (most >= 0 and count > most):
        return False
    for i in range(first, first + n):
        if tables.refused[i] == count:
            return False
    return True


cdef inline bint has_type(const Tables* tables, const Parameter* parameter, int32_t kind) noexcept nogil:
    return kind < tables.width and tables.sets[<Py_ssize_t>parameter.types * tables.width + kind]


cdef inline uint8_t check_type(
    const Tables* tables, const Parameter* parameter, int32_t kind, int32_t* bound
) noexcept nogil:
    """Return the fault of a known type; bind an unbound type variable to it."""
    if not has_type(tables, parameter, kind):
        return WRONG_TYPE
    if parameter.variable >= 0:
        if bound[parameter.variable] == 0:
            bound[parameter.variable] = kind
        elif bound[parameter.variable] != kind:
            return OTHER_TYPE
    return 0


cdef inline bint is_internal(const Texts* texts, int32_t id) noexcept nogil:
    """Return whether a name begins with two underscores, as the internal attributes of tools do."""
    cdef uint64_t start = texts.start[id]
    return texts.start[id + 1] - start >= 2 and texts.arena[start] == 95 and texts.arena[start + 1] == 95


cdef uint8_t check_attributes(
    const Tables* tables, const Signature* signature, const Texts* texts, Run own, const int32_t* names,
    const int64_t* kinds, const int32_t* declared, uint8_t* faults,
) noexcept nogil:
    cdef const Attribute* known = tables.attributes + signature.attributes
    cdef uint64_t seen = 0
    cdef int32_t i, k
    cdef int64_t kind
    for i in range(own.first, own.first + own.n):
        for k in range(signature.n_attributes):
            if known[k].name == names[i]:
                break
        else:
            if not signature.is_open and not is_internal(texts, names[i]):
                faults[i] |= UNKNOWN
            continue
        seen |= <uint64_t>1 << k
        kind = kinds[i] if kinds[i] or declared == NULL else declared[i]
        if kind and kind != known[k].kind:
            faults[i] |= WRONG_KIND
    for k in range(signature.n_attributes):
        if known[k].is_required and not seen >> k & 1:
            return LACKS_ATTRIBUTE
    return 0


@critical_section
def check_signatures(
    Facts facts,
    const int32_t[::1] chosen,
    const int32_t[:, ::1] signatures,
    const int32_t[:, ::1] parameters,
    const int32_t[:, ::1] attributes,
    const int32_t[::1] refused,
    const uint8_t[:, ::1] sets,
    const int32_t[::1] definitions,
    const int32_t[::1] declared,
    int32_t[::1] types,
    uint8_t[::1] node_faults,
    uint8_t[::1] input_faults,
    uint8_t[::1] output_faults,
    uint8_t[::1] attribute_faults,
):
    """Fill the columns of faults, and the types that can be inferred.

    chosen: the signature of each node, below 0 for none. signatures, parameters, attributes, refused, sets: tables,
    each with one unused row at the end. definitions: see `Scopes`. declared: for each attribute without a type, the
    type of the parameter that it refers to; or empty. types: the known type of each definition, node outputs first.
    """
    cdef List* used = facts.list_of("NodeProto", "input")
    cdef List* made = facts.list_of("NodeProto", "output")
    cdef Run* inputs = <Run*>facts.column("NodeProto", "input")
    cdef Run* outputs = <Run*>facts.column("NodeProto", "output")
    cdef Run* own = <Run*>facts.column("NodeProto", "attribute")
    cdef int32_t* names = <int32_t*>facts.column("AttributeProto", "name")
    cdef int64_t* kinds = <int64_t*>facts.column("AttributeProto", "type")
    cdef const int32_t* others = &declared[0] if declared.shape[0] else NULL
    cdef Tables tables
    cdef const Signature* signature
    cdef const Parameter* parameter
    cdef int32_t[64] bound
    cdef int32_t node, i, k, kind
    cdef int32_t n_nodes = <int32_t>chosen.shape[0]
    # An empty buffer has no first element; its pointer is never read.
    cdef const int32_t* of = &definitions[0] if definitions.shape[0] else NULL
    cdef int32_t* known = &types[0] if types.shape[0] else NULL
    cdef uint8_t* wrong_inputs = &input_faults[0] if input_faults.shape[0] else NULL
    cdef uint8_t* wrong_outputs = &output_faults[0] if output_faults.shape[0] else NULL
    cdef uint8_t* wrong_attributes = &attribute_faults[0] if attribute_faults.shape[0] else NULL
    if (
        chosen.shape[0] != facts.sheet("NodeProto").n or node_faults.shape[0] != chosen.shape[0]
        or definitions.shape[0] != used.n or input_faults.shape[0] != used.n or output_faults.shape[0] != made.n
        or types.shape[0] < made.n or attribute_faults.shape[0] != facts.sheet("AttributeProto").n
        or (declared.shape[0] and declared.shape[0] != attribute_faults.shape[0])
        or signatures.shape[1] * 4 != sizeof(Signature) or parameters.shape[1] * 4 != sizeof(Parameter)
        or attributes.shape[1] * 4 != sizeof(Attribute)
    ):
        raise ValueError("the columns differ in length")
    tables.signatures = <const Signature*>&signatures[0, 0]
    tables.parameters = <const Parameter*>&parameters[0, 0]
    tables.attributes = <const Attribute*>&attributes[0, 0]
    tables.refused = &refused[0]
    tables.sets = &sets[0, 0]
    tables.width = <int32_t>sets.shape[1]
    with nogil:
        for node in range(n_nodes):
            if chosen[node] < 0:
                continue
            signature = &tables.signatures[chosen[node]]
            if not allows(
                &tables, signature.refused, signature.n_inputs_refused, signature.min_inputs, signature.max_inputs,
                inputs[node].n,
            ):
                node_faults[node] |= TOO_FEW_OR_MANY_INPUTS
            if not allows(
                &tables, signature.refused + signature.n_inputs_refused, signature.n_outputs_refused,
                signature.min_outputs, signature.max_outputs, outputs[node].n,
            ):
                node_faults[node] |= TOO_FEW_OR_MANY_OUTPUTS
            node_faults[node] |= check_attributes(
                &tables, signature, &facts.texts, own[node], names, kinds, others, wrong_attributes
            )
            memset(bound, 0, <size_t>signature.variables * 4)
            parameter = &tables.parameters[signature.inputs]
            for i in range(inputs[node].n):
                k = inputs[node].first + i
                if i < signature.n_inputs:
                    parameter = &tables.parameters[signature.inputs + i]
                elif signature.max_inputs >= 0:
                    break  # too many outputs, which is reported
                if used.value[k] == 0:
                    if parameter.option == SINGLE:
                        wrong_inputs[k] |= OMITTED
                    continue
                kind = known[of[k]] if of[k] >= 0 else 0
                if kind:
                    wrong_inputs[k] |= check_type(&tables, parameter, kind, bound)
            parameter = &tables.parameters[signature.outputs]
            for i in range(outputs[node].n):
                k = outputs[node].first + i
                if i < signature.n_outputs:
                    parameter = &tables.parameters[signature.outputs + i]
                elif signature.max_outputs >= 0:
                    break
                if made.value[k] == 0:
                    if parameter.option == SINGLE:
                        wrong_outputs[k] |= OMITTED
                elif known[k]:
                    wrong_outputs[k] |= check_type(&tables, parameter, known[k], bound)
                elif parameter.variable >= 0 and bound[parameter.variable]:
                    known[k] = bound[parameter.variable]
                else:
                    known[k] = parameter.only
