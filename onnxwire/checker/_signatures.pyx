# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Compares nodes with the signatures of their operators, in one pass over the columns in the order of the nodes.

Types are numbers; 0 is an unknown type. The pass sets the unknown types of outputs that allow only one type, or share
a type variable with an input or earlier output of known type, so that later nodes know them. In an unsorted graph, the
type of an input stays unknown if its producer comes later.
"""
from cython cimport critical_section
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from onnxwire.checker._facts cimport Facts
from onnxwire.checker._sheets cimport List, Run
from onnxwire.index.interning cimport Texts

cdef enum:
    MAX_VARIABLES = 64       # maximum number of an operator's type variables, and of its attributes

    # Faults of a node; `signatures.py` has the same numbers for all faults.
    INPUT_COUNT = 1          # the number of inputs is not allowed
    OUTPUT_COUNT = 2         # the number of outputs is not allowed
    LACKS_ATTRIBUTE = 4
    # Faults of an input or output.
    OMITTED = 1
    WRONG_TYPE = 2
    OTHER_TYPE = 4           # the type differs from that of an earlier parameter with the same type variable
    # Faults of an attribute.
    UNKNOWN = 1
    WRONG_KIND = 2

    # Options of a parameter.
    SINGLE = 0
    OPTIONAL = 1
    VARIADIC = 2

# Rows of three of the tables that the pass reads; all members are int32.
cdef struct Signature:
    # The first rows of the parameters and attributes in their tables, and the numbers of rows.
    int32_t inputs, n_inputs, outputs, n_outputs, attributes, n_attributes
    int32_t min_inputs, max_inputs, min_outputs, max_outputs  # a maximum of -1: no limit
    int32_t disallowed       # index of the first disallowed count; counts of inputs precede those of outputs
    int32_t n_inputs_disallowed, n_outputs_disallowed
    int32_t variables        # the number of type variables
    int32_t is_open          # undeclared attributes are allowed

cdef struct Parameter:
    int32_t types            # row of `type_sets`
    int32_t variable         # index of the type variable in the signature, -1 for none
    int32_t option           # SINGLE, OPTIONAL or VARIADIC
    int32_t only_type        # the only allowed type, or 0 if there are several

cdef struct Attribute:
    int32_t name             # id of the string, -1 if the document does not contain it
    int32_t kind             # a number of AttributeProto.AttributeType
    int32_t is_required


cdef struct Tables:
    const Signature* signatures
    const Parameter* parameters
    const Attribute* attributes
    const int32_t* disallowed
    const uint8_t* type_sets  # a row of `width` bools for each set: whether it contains each type
    int32_t width


cdef inline bint allows(
    const Tables* tables, int32_t first, int32_t n, int32_t min_count, int32_t max_count, int32_t count
) noexcept nogil:
    """Return whether a number of inputs or outputs is allowed. first, n: the range of disallowed counts."""
    cdef int32_t i
    if count < min_count or (max_count >= 0 and count > max_count):
        return False
    for i in range(first, first + n):
        if tables.disallowed[i] == count:
            return False
    return True


cdef inline bint has_type(const Tables* tables, const Parameter* parameter, int32_t type_number) noexcept nogil:
    """Return whether a parameter allows a type."""
    return type_number < tables.width and tables.type_sets[<Py_ssize_t>parameter.types * tables.width + type_number]


cdef inline uint8_t check_type(
    const Tables* tables, const Parameter* parameter, int32_t type_number, int32_t* bound_types
) noexcept nogil:
    """Return the fault of a value of a known type, or 0; bind the parameter's type variable to the type if unbound."""
    if not has_type(tables, parameter, type_number):
        return WRONG_TYPE
    if parameter.variable >= 0:
        if bound_types[parameter.variable] == 0:
            bound_types[parameter.variable] = type_number
        elif bound_types[parameter.variable] != type_number:
            return OTHER_TYPE
    return 0


cdef inline bint is_internal(const Texts* texts, int32_t id) noexcept nogil:
    """Return whether a name begins with two underscores, as the internal attributes of tools do."""
    cdef uint64_t start = texts.start[id]
    return texts.start[id + 1] - start >= 2 and texts.arena[start] == c"_" and texts.arena[start + 1] == c"_"


cdef uint8_t check_attributes(
    const Tables* tables, const Signature* signature, const Texts* texts, Run node_attributes, const int32_t* names,
    const int64_t* kinds, const int32_t* declared, uint8_t* faults,
) noexcept nogil:
    """Record the faults of a node's attributes; return LACKS_ATTRIBUTE if a required one is missing, otherwise 0.

    names, kinds, faults: the columns of all attributes. declared: see `check_signatures`; NULL if it is empty.
    """
    cdef const Attribute* attribute_rows = tables.attributes + signature.attributes
    cdef uint64_t present_bits = 0
    cdef int32_t i, k
    cdef int64_t kind
    for i in range(node_attributes.first, node_attributes.first + node_attributes.n):
        for k in range(signature.n_attributes):
            if attribute_rows[k].name == names[i]:
                break
        else:
            if not signature.is_open and not is_internal(texts, names[i]):
                faults[i] |= UNKNOWN
            continue
        present_bits |= <uint64_t>1 << k
        kind = kinds[i] if kinds[i] or declared == NULL else declared[i]
        if kind and kind != attribute_rows[k].kind:
            faults[i] |= WRONG_KIND
    for k in range(signature.n_attributes):
        if attribute_rows[k].is_required and not present_bits >> k & 1:
            return LACKS_ATTRIBUTE
    return 0


@critical_section
def check_signatures(
    Facts facts,
    const int32_t[::1] signature_of_node,
    const int32_t[:, ::1] signatures,
    const int32_t[:, ::1] parameters,
    const int32_t[:, ::1] attributes,
    const int32_t[::1] disallowed_counts,
    const uint8_t[:, ::1] type_sets,
    const int32_t[::1] definitions,
    const int32_t[::1] declared,
    int32_t[::1] types,
    uint8_t[::1] node_faults,
    uint8_t[::1] input_faults,
    uint8_t[::1] output_faults,
    uint8_t[::1] attribute_faults,
):
    """Fill the columns of faults, and the types that can be inferred.

    signature_of_node: the signature of each node, below 0 for none. signatures, parameters, attributes,
    disallowed_counts, type_sets: tables, each with one unused row at the end. definitions: see `Scopes`. declared: for
    each attribute that has no type of its own and refers to an attribute of its function, the type of that attribute's
    default, else 0; or empty.
    types: the known type of each definition, node outputs first. node_faults, input_faults, output_faults,
    attribute_faults: the columns of faults, one for each row of NodeProto, NodeProto.input, NodeProto.output and
    AttributeProto. Raises ValueError for columns of wrong lengths, or tables with wrong numbers of columns.
    """
    cdef List* input_list = facts.list_of("NodeProto", "input")
    cdef List* output_list = facts.list_of("NodeProto", "output")
    cdef Run* input_runs = <Run*>facts.column("NodeProto", "input")
    cdef Run* output_runs = <Run*>facts.column("NodeProto", "output")
    cdef Run* attribute_runs = <Run*>facts.column("NodeProto", "attribute")
    cdef int32_t* names = <int32_t*>facts.column("AttributeProto", "name")
    cdef int64_t* kinds = <int64_t*>facts.column("AttributeProto", "type")
    cdef const int32_t* declared_kinds = &declared[0] if declared.shape[0] else NULL
    cdef Tables tables
    cdef const Signature* signature
    cdef const Parameter* parameter
    cdef int32_t[MAX_VARIABLES] bound_types
    cdef int32_t node, i, element, type_number
    cdef int32_t n_nodes = <int32_t>signature_of_node.shape[0]
    # An empty buffer has no first element; its pointer is never read.
    cdef const int32_t* definition_of = &definitions[0] if definitions.shape[0] else NULL
    cdef int32_t* known_types = &types[0] if types.shape[0] else NULL
    cdef uint8_t* wrong_inputs = &input_faults[0] if input_faults.shape[0] else NULL
    cdef uint8_t* wrong_outputs = &output_faults[0] if output_faults.shape[0] else NULL
    cdef uint8_t* wrong_attributes = &attribute_faults[0] if attribute_faults.shape[0] else NULL
    if (
        signature_of_node.shape[0] != facts.sheet("NodeProto").n or node_faults.shape[0] != signature_of_node.shape[0]
        or definitions.shape[0] != input_list.n or input_faults.shape[0] != input_list.n
        or output_faults.shape[0] != output_list.n
        or types.shape[0] < output_list.n or attribute_faults.shape[0] != facts.sheet("AttributeProto").n
        or (declared.shape[0] and declared.shape[0] != attribute_faults.shape[0])
        or signatures.shape[1] * 4 != sizeof(Signature) or parameters.shape[1] * 4 != sizeof(Parameter)
        or attributes.shape[1] * 4 != sizeof(Attribute)
    ):
        raise ValueError("the columns differ in length")
    tables.signatures = <const Signature*>&signatures[0, 0]
    tables.parameters = <const Parameter*>&parameters[0, 0]
    tables.attributes = <const Attribute*>&attributes[0, 0]
    tables.disallowed = &disallowed_counts[0]
    tables.type_sets = &type_sets[0, 0]
    tables.width = <int32_t>type_sets.shape[1]
    with nogil:
        for node in range(n_nodes):
            if signature_of_node[node] < 0:
                continue
            signature = &tables.signatures[signature_of_node[node]]
            if not allows(
                &tables, signature.disallowed, signature.n_inputs_disallowed,
                signature.min_inputs, signature.max_inputs, input_runs[node].n,
            ):
                node_faults[node] |= INPUT_COUNT
            if not allows(
                &tables, signature.disallowed + signature.n_inputs_disallowed, signature.n_outputs_disallowed,
                signature.min_outputs, signature.max_outputs, output_runs[node].n,
            ):
                node_faults[node] |= OUTPUT_COUNT
            node_faults[node] |= check_attributes(
                &tables, signature, &facts.texts, attribute_runs[node], names, kinds, declared_kinds, wrong_attributes
            )
            memset(bound_types, 0, <size_t>signature.variables * 4)
            parameter = &tables.parameters[signature.inputs]
            for i in range(input_runs[node].n):
                element = input_runs[node].first + i
                if i < signature.n_inputs:
                    parameter = &tables.parameters[signature.inputs + i]
                elif signature.max_inputs >= 0:
                    break  # the node has too many inputs, a fault that is already recorded
                if input_list.value[element] == 0:
                    if parameter.option == SINGLE:
                        wrong_inputs[element] |= OMITTED
                    continue
                type_number = known_types[definition_of[element]] if definition_of[element] >= 0 else 0
                if type_number:
                    wrong_inputs[element] |= check_type(&tables, parameter, type_number, bound_types)
            parameter = &tables.parameters[signature.outputs]
            for i in range(output_runs[node].n):
                element = output_runs[node].first + i
                if i < signature.n_outputs:
                    parameter = &tables.parameters[signature.outputs + i]
                elif signature.max_outputs >= 0:
                    break
                if output_list.value[element] == 0:
                    if parameter.option == SINGLE:
                        wrong_outputs[element] |= OMITTED
                elif known_types[element]:
                    wrong_outputs[element] |= check_type(&tables, parameter, known_types[element], bound_types)
                elif parameter.variable >= 0 and bound_types[parameter.variable]:
                    known_types[element] = bound_types[parameter.variable]
                else:
                    known_types[element] = parameter.only_type
