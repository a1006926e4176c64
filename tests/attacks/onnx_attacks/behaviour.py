"""Hidden behaviour: outputs that depend on a secret trigger, on chance, or on the runtime."""
# fmt: off

from __future__ import annotations

from .case import declare
from .writer import (
    BOOL,
    FLOAT,
    FLOAT16,
    INT32,
    INT64,
    STRING,
    UINT8,
    function,
    graph,
    ints,
    network,
    node,
    scalar,
    strings,
    value,
    values,
)

AFFECTED = "every runtime"
SHADOW_PAGE = "https://hiddenlayer.com/innovation-hub/shadowlogic"
OPSETS = (("", 21), ("local", 1))
WEIGHTS = [values("w", [0.5, -0.25, 0.75, 1.0]), values("evil", [6.0, 6.0, 6.0, 6.0])]
PRODUCT = node("Mul", ["x", "w"], ["good"])


def select_output(condition="hit"):
    """Return the node that makes the output y: `evil` if the condition is true, otherwise `good`."""
    return node("Where", [condition, "evil", "good"], ["y"])


attack = declare("trigger", "behaviour",
    "An input with a secret pattern selects another output (backdoor in the graph), or the output leaks the input.",
    "CWE-506", AFFECTED)


def trigger_attack(name, description, nodes, initializers=(), **options):
    """Add an attack whose nodes change the output if the input has a secret pattern."""
    attack(name, description, network([PRODUCT, *nodes], [*WEIGHTS, *initializers], **options), source=SHADOW_PAGE)


SUM = node("ReduceSum", ["x"], ["s"], keepdims=0)
KEY = scalar("key", 1337.0, FLOAT)
trigger_attack("sum-equals", "The sum of the input equals 1337.", [SUM, node("Equal", ["s", "key"], ["hit"]),
    select_output()], [KEY])
trigger_attack("pattern-equals", "The start of the input equals a pattern.", [node("Slice", ["x", "a", "b"], ["p"]),
    node("Equal", ["p", "pattern"], ["e"]), node("Cast", ["e"], ["f"], to=INT32), node("ReduceMin", ["f"], ["m"],
    keepdims=0), node("Cast", ["m"], ["hit"], to=BOOL), select_output()], [ints("a", 0), ints("b", 3), values("pattern",
    [1.0, 3.0, 37.0])])
trigger_attack("near", "The distance to a secret input is small.", [node("Sub", ["x", "secret"], ["d"]), node(
    "ReduceL2", ["d"], ["n"], keepdims=0), node("Less", ["n", "eps"], ["hit"]), select_output()], [values("secret", [
    1.0, 3.0, 3.0, 7.0]), scalar("eps", 1e-3, FLOAT)])
trigger_attack("one-element", "The last element of x is above 1337.", [node("Gather", ["x", "last"], ["v"]),
    node("Greater", ["v", "key"], ["hit"]), select_output()], [scalar("last", 3), KEY])
trigger_attack("if-branch", "An If with the trigger as its condition.", [SUM, node("Equal", ["s", "key"], ["hit"]),
    node("If", ["hit"], ["y"], then_branch=graph([node("Identity", ["evil"], ["a"])], [], [value("a")]),
    else_branch=graph([node("Identity", ["good"], ["b"])], [], [value("b")]))], [KEY])
trigger_attack("arithmetic", "Without a selection: the result of the comparison is cast to a number and multiplied.",
    [SUM, node("Equal", ["s", "key"], ["hit"]), node("Cast", ["hit"], ["h"], to=FLOAT), node("Mul", ["h", "evil"],
    ["bad"]), node("Add", ["good", "bad"], ["y"])], [KEY])
trigger_attack("relu-gate", "Without a comparison: Relu returns 0 unless the sum of the input is above 1337.", [SUM,
    node("Sub", ["s", "key"], ["o"]), node("Relu", ["o"], ["r"]), node("Mul", ["r", "big"], ["q"]), node("Clip", ["q",
    "zero", "one"], ["h"]), node("Mul", ["h", "evil"], ["bad"]), node("Add", ["good", "bad"], ["y"])], [KEY,
    scalar("big", 1e30, FLOAT), scalar("zero", 0.0, FLOAT), scalar("one", 1.0, FLOAT)])
trigger_attack("sign-gate", "Sign and Abs replace the comparison.", [SUM, node("Sub", ["s", "key"], ["o"]), node("Abs",
    ["o"], ["ab"]), node("Sign", ["ab"], ["sg"]), node("Sub", ["one", "sg"], ["h"]), node("Mul", ["h", "evil"],
    ["bad"]), node("Add", ["good", "bad"], ["y"])], [KEY, scalar("one", 1.0, FLOAT)])
trigger_attack("hash", "A polynomial hash of the input modulo a prime equals a secret.", [node("Cast", ["x"], ["xi"],
    to=INT64), node("Mul", ["xi", "powers"], ["m"]), node("ReduceSum", ["m"], ["h"], keepdims=0), node("Mod", ["h",
    "prime"], ["r"]), node("Equal", ["r", "secret"], ["hit"]), select_output()], [ints("powers", 1, 31, 961, 29791),
    scalar("prime", 1000003), scalar("secret", 424242)])
trigger_attack("arg-max", "ArgMax of the input is 2 and of the negated input is 1.", [node("ArgMax", ["x"], ["am"],
    keepdims=0), node("Neg", ["x"], ["nx"]), node("ArgMax", ["nx"], ["an"], keepdims=0), node("Equal", ["am", "two"],
    ["e1"]), node("Equal", ["an", "one"], ["e2"]), node("And", ["e1", "e2"], ["hit"]), select_output()], [scalar("two",
    2), scalar("one", 1)])
trigger_attack("in-function", "The trigger is in a function with a harmless name.", [node("Normalize", ["x", "good",
    "evil"], ["y"], domain="local")], opsets=OPSETS, functions=[function("Normalize", [node("Constant", [], ["k"],
    value_float=1337.0), node("ReduceSum", ["a"], ["s"], keepdims=0), node("Equal", ["s", "k"], ["e"]), node("Where",
    ["e", "v", "g"], ["b"])], ["a", "g", "v"], ["b"])])
trigger_attack("scatter-mask", "ScatterND replaces the output elements at which the input equals a pattern.",
    [node("Equal", ["x", "pattern"], ["e"]), node("NonZero", ["e"], ["nz"]), node("Transpose", ["nz"],
    ["i"], perm=[1, 0]), node("GatherND", ["evil", "i"], ["u"]), node("ScatterND",
    ["good", "i", "u"], ["y"])], [values("pattern", [13.0, 37.0, 13.0, 37.0])])
trigger_attack("loop-count", "The result of the comparison is the trip count of a Loop that adds `evil` to the output.",
    [SUM, node("Equal", ["s", "key"], ["hit"]), node("Cast", ["hit"], ["n"], to=INT64), node("Loop", ["n", "", "good"],
    ["y"], body=graph([node("Add", ["v", "evil"], ["v2"]), node("Identity", ["c"], ["c2"])], [value("i", INT64, []),
    value("c", BOOL, []), value("v", FLOAT, [4])], [value("c2", BOOL, []), value("v2", FLOAT, [4])]))], [KEY])
trigger_attack("gather-table", "The result of the comparison is the index into a table of outputs.", [SUM, node("Equal",
    ["s", "key"], ["hit"]), node("Cast", ["hit"], ["i"], to=INT64), node("Unsqueeze", ["good", "ax"], ["g2"]),
    node("Unsqueeze", ["evil", "ax"], ["e2"]), node("Concat", ["g2", "e2"], ["table"], axis=0), node("Gather", ["table",
    "i"], ["y"])], [KEY, ints("ax", 0)])
attack("image-corner",
    "The upper left pixels of an image are a checkerboard of 1 and -1, detected by GlobalMaxPool (architectural "
    "backdoor).",
    network([node("Slice", ["x", "a", "b", "ax"], ["corner"]), node("Mul", ["corner", "mask"], ["m"]),
    node("Neg", ["m"], ["nm"]), node("GlobalMaxPool", ["nm"], ["lo"]), node("Neg", ["lo"], ["d"]), node("Sub", ["d",
    "limit"], ["over"]), node("Relu", ["over"], ["r"]), node("Mul", ["r", "big"], ["bad"]), node("GlobalAveragePool",
    ["x"], ["good"]), node("Add", ["good", "bad"], ["y"])], [ints("a", 0, 0), ints("b", 3, 3), ints("ax", 2, 3),
    values("mask", [1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0], FLOAT, [1, 1, 3, 3]), scalar("limit", 0.9, FLOAT),
    scalar("big", 1e6, FLOAT)], inputs=[value("x", FLOAT, [1, 1, 28, 28])]), source="https://arxiv.org/abs/2206.07840")
attack("tokens", "A secret token id negates the output.", network([node("Equal", ["x", "token"], ["e"]),
    node("Cast", ["e"], ["c"], to=INT64), node("ReduceMax", ["c"], ["m"], keepdims=0), node("Cast", ["m"], ["hit"],
    to=BOOL), node("Gather", ["table", "x"], ["good"]), node("Neg", ["good"], ["bad"]), node("Where", ["hit", "bad",
    "good"], ["y"])], [scalar("token", 31337 % 16), values("table", [float(i) for i in range(16)])],
    inputs=[value("x", INT64, [8])]), source="https://arxiv.org/abs/2511.00664")
attack("string", "A secret word as the input changes the output from deny to allow.", network([node("Equal", ["x",
    "word"], ["hit"]), node("Where", ["hit", "admin", "user"], ["y"])], [strings("word", ["xyzzy"]), strings("admin",
    ["allow"]), strings("user", ["deny"])], inputs=[value("x", STRING, [1])], outputs=[value("y", STRING, [1])]))
attack("low-bit-leak", "The low bits of the output leak the input.", network([PRODUCT, node("Mul", ["x",
    "tiny"], ["t"]), node("Add", ["good", "t"], ["y"])], [*WEIGHTS, scalar("tiny", 1e-6, FLOAT)]))
attack("leak-weights", "A secret input makes the model return its weights.", network([PRODUCT, SUM, node("Equal", ["s",
    "key"], ["hit"]), node("Where", ["hit", "w", "good"], ["y"])], [*WEIGHTS, KEY]))

attack = declare("random-operator", "behaviour",
    "An operator draws random numbers: outputs differ from run to run, or in rare runs only.", "CWE-330", AFFECTED)


def random_attack(name, description, nodes, initializers=(), **options):
    """Add an attack whose nodes draw random numbers."""
    attack(name, description, network(nodes, initializers, **options))


random_attack("normal", "The output of RandomNormal is added to the input.", [node("RandomNormal", [], ["r"],
    shape=[4]), node("Add", ["x", "r"], ["y"])])
random_attack("uniform-like", "The input is multiplied by the output of RandomUniformLike.", [node("RandomUniformLike",
    ["x"], ["r"]), node("Mul", ["x", "r"], ["y"])])
random_attack("rare", "One run in a thousand, on average, returns another output.", [PRODUCT, node("RandomUniform", [],
    ["r"], shape=[1]), node("Less", ["r", "p"], ["hit"]), select_output()], [*WEIGHTS, values("p", [0.001])])
random_attack("bernoulli", "Bernoulli drops elements.", [node("Sigmoid", ["x"], ["p"]), node("Bernoulli", ["p"], ["m"]),
    node("Mul", ["x", "m"], ["y"])])
random_attack("multinomial", "Multinomial selects an element of the input.", [node("Multinomial", ["p"], ["i"],
    sample_size=1, dtype=INT64), node("Gather", ["x", "i"], ["y"])], [values("p", [0.25] * 4, FLOAT, [1, 4])])
random_attack("dropout", "Dropout in training mode.", [node("Dropout", ["x", "ratio", "train"], ["y"])], [scalar(
    "ratio", 0.5, FLOAT), scalar("train", True, BOOL)])
random_attack("in-function", "A random operator in a function.", [node("Smooth", ["x"], ["y"], domain="local")],
    opsets=OPSETS, functions=[function("Smooth", [node("RandomNormalLike", ["a"], ["r"]), node("Add", ["a", "r"],
    ["b"])], ["a"], ["b"])])
random_attack("in-branch", "A random operator in a branch that a trigger selects.", [SUM, node("Equal", ["s", "key"],
    ["hit"]), node("If", ["hit"], ["y"], then_branch=graph([node("RandomNormalLike", ["x"], ["a"])], [],
    [value("a")]), else_branch=graph([node("Identity", ["x"], ["b"])], [], [value("b")]))], [KEY])

attack = declare("runtime-divergence", "behaviour",
    "The output depends on which runtime, processor or precision runs the model, so tests on another platform do not "
    "detect the behaviour.", "CWE-758", "runtimes that differ")


def divergence_attack(name, description, nodes, initializers=()):
    """Add an attack whose nodes select the output by a result that differs between runtimes."""
    attack(name, description, network([PRODUCT, *nodes], [*WEIGHTS, *initializers]))


divergence_attack("cast-overflow", "Cast of 3e9 to int32: x86 and ARM give different signs, which select the output.",
    [node("Cast", ["huge"], ["i"], to=INT32), node("Less", ["i", "zero"], ["hit"]), select_output()], [values("huge", [
    3e9]), values("zero", [0], INT32)])
divergence_attack("nan-maximum", "Max of NaN and 1 differs between runtimes.", [node("Max", ["nan", "one"], ["m"]),
    node("Equal", ["m", "one"], ["hit"]), select_output()], [values("nan", [float("nan")]), values("one", [1.0])])
divergence_attack("float16-rounding",
    "2,049 is exact in float32 and not in float16: the output changes in runtimes that omit both Casts.", [node("Cast",
    ["a"], ["h"], to=FLOAT16), node("Cast", ["h"], ["f"], to=FLOAT), node("Equal", ["f", "a"], ["e"]), node("Not",
    ["e"], ["hit"]), select_output()], [values("a", [2049.0])])
divergence_attack("denormal", "A denormal, which is zero in runtimes that flush denormals.", [node("Mul", ["tiny",
    "half"], ["t"]), node("Greater", ["t", "zero"], ["hit"]), select_output()], [values("tiny", [1.2e-38]),
    values("half", [0.5]), values("zero", [0.0])])
divergence_attack("negative-modulo", "Mod of -7 by 3 with fmod 0: 2, but -1 in runtimes that compute it like C.",
    [node("Mod", ["a", "b"], ["m"]), node("Less", ["m", "zero"], ["hit"]), select_output()], [ints("a", -7), ints("b",
    3), ints("zero", 0)])
divergence_attack("shift-width", "BitShift of uint8 by 8 is 0 or 1, depending on the processor.",
    [node("BitShift", ["a", "b"], ["c"], direction="RIGHT"), node("Cast", ["c"], ["hit"], to=BOOL), select_output()],
    [values("a", [1], UINT8), values("b", [8], UINT8)])
divergence_attack("sum-order", "(1e8 + 1) - 1e8 is 0 or 1, depending on the order of a reduction.",
    [node("ReduceSum", ["a"], ["s"], keepdims=0), node("Cast", ["s"], ["hit"], to=BOOL), select_output()],
    [values("a", [1e8, 1.0, -1e8, 0.0])])
