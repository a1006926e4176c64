"""Indices out of range, inconsistent trees and attributes, and shapes that do not fit: accesses out of bounds."""
# fmt: off

from __future__ import annotations

from math import prod

from .case import declare
from .writer import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    UINT8,
    graph,
    ints,
    model_with_extras,
    network,
    node,
    scalar,
    sparse,
    strings,
    value,
    values,
)

RUNTIMES = "onnxruntime, onnx.reference, OpenVINO, TVM"
ML = (("", 21), ("ai.onnx.ml", 3))
ML5 = (("", 21), ("ai.onnx.ml", 5))
MICROSOFT = (("", 21), ("com.microsoft", 1))
HUGE = 1 << 40
TABLE = values("t", [float(i) for i in range(8)], FLOAT, [4, 2])

attack = declare("index-range", "crashes", "A constant index, count or axis does not fit the tensor it applies to.",
    "CWE-125", RUNTIMES)


def index_attack(name, description, nodes, initializers, **options):
    """Add an attack whose nodes have an index, a count or an axis that does not fit their tensors."""
    attack(name, description, network(nodes, initializers), **options)


index_attack("gather", "Gather of row 2^40 of four rows.", [node("Gather", ["t", "i"], ["y"])], [TABLE, ints("i",
    HUGE)])
index_attack("gather-negative", "Gather of row -1,000.", [node("Gather", ["t", "i"], ["y"])], [TABLE, ints("i", -1000)])
index_attack("gather-int32", "Gather with an int32 index of 2^31 - 1.", [node("Gather", ["t", "i"], ["y"])], [TABLE,
    values("i", [(1 << 31) - 1], INT32)])
index_attack("gather-one-of-many", "One of 1,000 indices is too large by one.", [node("Gather", ["t", "i"], ["y"])], [
    TABLE, ints("i", *[0] * 999, 4)])
index_attack("gather-computed", "The index is the square of a constant.", [node("Mul", ["a", "a"], ["i"]), node(
    "Gather", ["t", "i"], ["y"])], [TABLE, ints("a", 1 << 20)])
index_attack("gather-of-input", "Gather of element 100 of an input of four.", [node("Gather", ["x", "i"], [
    "y"])], [ints("i", 100)])
index_attack("gather-elements", "GatherElements with index 2^40.", [node("GatherElements", ["t", "i"], ["y"])], [TABLE,
    values("i", [HUGE, 0], INT64, [1, 2])])
index_attack("gather-nd", "GatherND at 2^40, 0.", [node("GatherND", ["t", "i"], ["y"])], [TABLE, values("i", [HUGE, 0],
    INT64, [1, 2])])
index_attack("gather-nd-negative", "GatherND at -9, 0.", [node("GatherND", ["t", "i"], ["y"])], [TABLE, values("i", [-9,
    0], INT64, [1, 2])])
index_attack("scatter-nd", "ScatterND writes at 2^40.", [node("ScatterND", ["t", "i", "u"], ["y"])], [TABLE, values("i",
    [HUGE, 0], INT64, [1, 2]), values("u", [6.0])], cwe="CWE-787")
index_attack("scatter-elements", "ScatterElements writes at 1,000.", [node("ScatterElements", ["t", "i", "u"], ["y"])],
    [TABLE, values("i", [1000, 0], INT64, [1, 2]), values("u", [6.0, 6.0], FLOAT, [1, 2])], cwe="CWE-787")
index_attack("scatter-elements-negative", "ScatterElements writes at -1,000.", [node("ScatterElements", ["t", "i", "u"],
    ["y"])], [TABLE, values("i", [-1000, 0], INT64, [1, 2]), values("u", [6.0, 6.0], FLOAT, [1, 2])], cwe="CWE-787")
index_attack("max-unpool", "MaxUnpool writes at index 2^40 of four elements.", [node("MaxUnpool", ["p", "i"], ["y"],
    kernel_shape=[2, 2], strides=[2, 2])], [values("p", [6.0], FLOAT, [1, 1, 1, 1]), values("i", [HUGE], INT64, [1, 1,
    1, 1])], cwe="CWE-787")
index_attack("max-unpool-negative", "MaxUnpool writes at index -100.", [node("MaxUnpool", ["p", "i"], ["y"],
    kernel_shape=[2, 2], strides=[2, 2])], [values("p", [6.0], FLOAT, [1, 1, 1, 1]), values("i", [-100], INT64, [1, 1,
    1, 1])], cwe="CWE-787")
index_attack("roi-align-batch", "RoiAlign of batch 1,000,000.", [node("RoiAlign", ["p", "r", "b"], ["y"],
    output_height=1, output_width=1)], [values("p", [6.0], FLOAT, [1, 1, 1, 1]), values("r", [0.0, 0.0, 1.0, 1.0],
    FLOAT, [1, 4]), ints("b", 1000000)])
index_attack("roi-align-batch-negative", "RoiAlign of batch -5.", [node("RoiAlign", ["p", "r", "b"], ["y"],
    output_height=1, output_width=1)], [values("p", [6.0], FLOAT, [1, 1, 1, 1]), values("r", [0.0, 0.0, 1.0, 1.0],
    FLOAT, [1, 4]), ints("b", -5)])
index_attack("max-roi-pool-batch", "MaxRoiPool of batch 1e6.", [node("MaxRoiPool", ["p", "r"], ["y"], pooled_shape=[1,
    1])], [values("p", [6.0], FLOAT, [1, 1, 1, 1]), values("r", [1e6, 0.0, 0.0, 1.0, 1.0], FLOAT, [1, 5])])
index_attack("reverse-sequence", "ReverseSequence with a length of 1,000 for four steps.", [node("ReverseSequence", [
    "t", "l"], ["y"])], [TABLE, ints("l", 1000, 1000)])
index_attack("nll-target", "NegativeLogLikelihoodLoss with class 99 of two.", [node("NegativeLogLikelihoodLoss", ["t",
    "i"], ["y"])], [TABLE, ints("i", 0, 1, 99, 0)])
index_attack("softmax-loss-target", "SoftmaxCrossEntropyLoss with class -7.", [node("SoftmaxCrossEntropyLoss", ["t",
    "i"], ["y"])], [TABLE, ints("i", 0, 1, -7, 0)])
index_attack("lstm-sequence-lens", "LSTM with a sequence length of 1,000 for one step.", [node("LSTM", ["s", "w", "r",
    "", "l"], ["y"], hidden_size=1)], [values("s", [1.0], FLOAT, [1, 1, 1]), values("w", [1.0] * 4, FLOAT, [1, 4, 1]),
    values("r", [1.0] * 4, FLOAT, [1, 4, 1]), values("l", [1000], INT32)])
index_attack("sequence-at", "SequenceAt of element 2^40 of a sequence of one.", [node("SequenceConstruct", ["t"], [
    "q"]), node("SequenceAt", ["q", "i"], ["y"])], [TABLE, scalar("i", HUGE)])
index_attack("sequence-erase", "SequenceErase of element -50.", [node("SequenceConstruct", ["t"], ["q"]),
    node("SequenceErase", ["q", "i"], ["q2"]), node("ConcatFromSequence", ["q2"], ["y"], axis=0)], [TABLE, scalar("i",
    -50)])
index_attack("compress-axis", "Compress with a condition longer than the axis.", [node("Compress", ["t", "c"], ["y"],
    axis=0)], [TABLE, values("c", [True] * 1000, BOOL)])
index_attack("max-unpool-many", "MaxUnpool writes at index 2^40, one of 256 indices.", [node("MaxUnpool", ["p", "i"],
    ["y"], kernel_shape=[2, 2], strides=[2, 2])], [values("p", [6.0] * 256, FLOAT, [1, 1, 16, 16]),
    values("i", [*range(255), HUGE], INT64, [1, 1, 16, 16])], cwe="CWE-787")
index_attack("gather-nd-many", "GatherND at 2^40, 2^40, 64 times.", [node("GatherND", ["t", "i"], ["y"])], [TABLE,
    values("i", [HUGE] * 128, INT64, [64, 2])])
index_attack("gather-of-unknown", "Gather of index 2^40 on an axis of unknown size.", [node("NonZero", ["x"], ["n"]),
    node("Gather", ["n", "i"], ["g"], axis=1), node("Cast", ["g"], ["y"], to=FLOAT)], [ints("i", HUGE)])
index_attack("gather-elements-shape",
    "GatherElements whose indices are longer than the value on another axis.",
    [node("GatherElements", ["t", "i"], ["y"], axis=0)], [TABLE, values("i", [0] * 36, INT64, [4, 9])])
index_attack("reverse-sequence-count", "ReverseSequence of two sequences with the lengths of 64.",
    [node("ReverseSequence", ["t", "l"], ["y"])], [TABLE, ints("l", *[1] * 64)])
index_attack("squeeze", "Squeeze of an axis of size 4.", [node("Squeeze", ["t", "i"], ["y"])], [TABLE, ints("i", 0)])
attack("array-feature-extractor", "ArrayFeatureExtractor at -10 leaks heap memory in onnxruntime up to 1.23.",
    network([node("ArrayFeatureExtractor", ["t", "i"], ["y"], domain="ai.onnx.ml")], [TABLE, ints("i", -10)],
    opsets=ML), source="https://github.com/microsoft/onnxruntime/issues/27265")
attack("tensor-scatter", "TensorScatter writes at 1,000 of four steps.", network([node("TensorScatter", ["k", "u", "i"],
    ["y"], axis=1)], [values("k", [0.0] * 4, FLOAT, [1, 4, 1]), values("u", [6.0], FLOAT, [1, 1, 1]), ints("i",
    1000)], opsets=(("", 24),), ir_version=12), cwe="CWE-787")
attack("embed-layer-norm", "EmbedLayerNormalization with word id 2^30.", network([node("EmbedLayerNormalization",
    ["ids", "", "we", "pe", "", "g", "g"], ["y", "m"], domain="com.microsoft", epsilon=1e-5)], [values("ids",
    [1 << 30], INT32, [1, 1]), values("we", [1.0] * 4, FLOAT, [1, 4]), values("pe", [1.0] * 4, FLOAT, [1, 4]),
    values("g", [1.0] * 4)], opsets=MICROSOFT))
attack("crop-and-resize", "CropAndResize of batch 1,000,000.", network([node("CropAndResize", ["p", "r", "b", "c"],
    ["y"], domain="com.microsoft")], [values("p", [6.0], FLOAT, [1, 1, 1, 1]), values("r", [0.0, 0.0, 1.0, 1.0],
    FLOAT, [1, 4]), values("b", [1000000], INT32), values("c", [1, 1], INT32)], opsets=MICROSOFT),
    source="https://github.com/microsoft/onnxruntime/pull/28766")
attack("group-query-attention", "GroupQueryAttention with seqlens_k of 1,000,000 and a cache of 4.",
    network([node("GroupQueryAttention", ["q", "k", "k", "pk", "pk", "sl", "ts"], ["y", "a", "b"],
    domain="com.microsoft", num_heads=1, kv_num_heads=1)], [values("q", [1.0] * 8, FLOAT, [1, 1, 8]), values("k",
    [1.0] * 8, FLOAT, [1, 1, 8]), values("pk", [1.0] * 32, FLOAT, [1, 1, 4, 8]), values("sl", [1000000], INT32),
    values("ts", [4], INT32, [])], opsets=MICROSOFT))
attack("rotary-position-ids", "RotaryEmbedding with position 1,000,000 of a cache of 2.",
    network([node("RotaryEmbedding", ["q", "p", "c", "c"], ["y"], domain="com.microsoft")], [values("q", [1.0] * 4,
    FLOAT, [1, 1, 4]), ints("p", 1000000), values("c", [1.0] * 4, FLOAT, [2, 2])], opsets=MICROSOFT))
attack("sparse-index",
    "A sparse initializer with an index of 2^40 for 8 elements: a runtime that makes it dense writes out of bounds.",
    model_with_extras(sparse=[sparse("sp", [8], [6.0], [HUGE])], nodes=[node("Neg", ["sp"], ["z"])]), cwe="CWE-787")
attack("sparse-index-negative", "A sparse initializer with an index of -1.", model_with_extras(sparse=[sparse("sp", [8],
    [6.0], [-1])], nodes=[node("Neg", ["sp"], ["z"])]), cwe="CWE-787")
attack("sparse-unsorted", "A sparse initializer whose indices are unsorted and repeated.",
    model_with_extras(sparse=[sparse("sp", [8], [1.0, 2.0, 3.0], [5, 5, 1])], nodes=[node("Neg", ["sp"], ["z"])]))
attack("sparse-more-indices", "A sparse initializer with one value and four indices.", model_with_extras(sparse=[sparse(
    "sp", [8], [1.0], [0, 1, 2, 3])], nodes=[node("Neg", ["sp"], ["z"])]))
attack("tf-idf-indexes", "TfIdfVectorizer with an ngram index of 2^40.", network([node("TfIdfVectorizer", ["i"],
    ["y"], max_gram_length=1, max_skip_count=0, min_gram_length=1, mode="TF", ngram_counts=[0], ngram_indexes=[HUGE],
    pool_int64s=[1])], [ints("i", 1, 1)]), cwe="CWE-787")
attack("tf-idf-counts", "TfIdfVectorizer with ngram_counts beyond its pool.", network([node("TfIdfVectorizer", ["i"],
    ["y"], max_gram_length=2, max_skip_count=0, min_gram_length=1, mode="TF", ngram_counts=[0, 1000],
    ngram_indexes=[0, 1], pool_int64s=[1, 2])], [ints("i", 1, 1)]))

# Trees

attack = declare("tree-ensemble", "crashes",
    "A tree refers to itself, or to nodes, features or targets that do not exist, or its attributes are inconsistent.",
    "CWE-125", "onnxruntime, onnx.reference, mlprodict")
# The attributes of a valid tree: a root and two leaves.
TREE = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
    "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0],
    "n_targets": 1,
}
ROW = [value("x", FLOAT, [1, 4])]


def tree_attack(name, description, cwe="CWE-125", source=None, **changes):
    """Add an attack with a tree ensemble. changes: attributes that replace those of TREE."""
    attributes = TREE | changes
    attack(name, description, network([node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **attributes)],
        inputs=ROW, opsets=ML), cwe=cwe, source=source)


tree_attack("feature-outside", "A node compares feature 1,000,000 of 4.", nodes_featureids=[1000000, 0, 0],
    source="https://github.com/microsoft/onnxruntime/pull/12859")
tree_attack("feature-negative", "A node compares feature -1.", nodes_featureids=[-1, 0, 0])
tree_attack("feature-truncated", "A node compares feature 2^32, which is 0 as a 32-bit int.",
    nodes_featureids=[1 << 32, 0, 0], cwe="CWE-681",
    source="https://github.com/microsoft/onnxruntime/pull/27677")
tree_attack("child-outside", "The true branch leads to node 1,000.", nodes_truenodeids=[1000, 0, 0])
tree_attack("child-is-self", "Both branches of the root lead to the root: evaluation does not end.", "CWE-835",
    nodes_truenodeids=[0, 0, 0], nodes_falsenodeids=[0, 0, 0])
tree_attack("child-cycle", "Two nodes lead to each other.", "CWE-835", nodes_modes=["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"],
    nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[1, 0, 0])
tree_attack("target-outside", "A leaf adds to target 1,000,000 of 1.", "CWE-787", target_ids=[1000000, 0],
    source="https://github.com/microsoft/onnxruntime/pull/27951")
tree_attack("target-negative", "A leaf adds to target -5.", "CWE-787", target_ids=[-5, 0])
tree_attack("targets-zero", "n_targets is 0.", n_targets=0)
tree_attack("weights-short", "target_weights has one element for two leaves.", target_weights=[1.0],
    source="https://github.com/microsoft/onnxruntime/pull/21595")
tree_attack("values-short", "nodes_values has one element for three nodes.", nodes_values=[0.5])
tree_attack("node-of-other-tree", "A target belongs to tree 7, which does not exist.", target_treeids=[7, 0])
attack("classifier-class-outside", "A leaf votes for class 99 of two.", network([node("TreeEnsembleClassifier", ["x"],
    ["l", "y"], domain="ai.onnx.ml", **{k: v for k, v in TREE.items() if not k.startswith(("target", "n_"))},
    class_treeids=[0, 0], class_nodeids=[1, 2], class_ids=[99, 0], class_weights=[1.0, 1.0], classlabels_int64s=[0,
    1])], inputs=ROW, opsets=ML), source="https://github.com/microsoft/onnxruntime/pull/27571")
TREE5 = {"aggregate_function": 1, "leaf_targetids": [0, 0], "leaf_weights": values(None, [1.0, 2.0]), "n_targets": 1,
    "nodes_falseleafs": [1], "nodes_falsenodeids": [1], "nodes_featureids": [0], "nodes_modes": values(None, [0],
    UINT8), "nodes_splits": values(None, [0.5]), "nodes_trueleafs": [1], "nodes_truenodeids": [0], "tree_roots": [0],
    "post_transform": 0, }


def tree5_attack(name, description, cwe="CWE-125", source=None, **changes):
    """Add an attack with a TreeEnsemble of ai.onnx.ml version 5. changes: attributes that replace those of TREE5."""
    attack(name, description, network([node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", **(TREE5 | changes))],
        inputs=ROW, opsets=ML5), cwe=cwe, source=source)


tree5_attack("v5-leaf-target-outside", "TreeEnsemble with MIN: a leaf contributes to target 1,000 of one.", "CWE-787",
    "https://github.com/microsoft/onnxruntime/pull/29293", aggregate_function=2, leaf_targetids=[1000, 0])
tree5_attack("v5-leaf-weights-scalar",
    "TreeEnsemble: leaf_weights is a scalar; shape inference reads its first dimension.",
    source="https://github.com/onnx/onnx/pull/8336", leaf_weights=values(None, [1.0], FLOAT, []))
tree5_attack("v5-root-outside", "TreeEnsemble: the root is node 500.", tree_roots=[500])
tree5_attack("v5-cycle", "TreeEnsemble: both branches lead to the root.", "CWE-674", nodes_falseleafs=[0],
    nodes_trueleafs=[0], nodes_falsenodeids=[0], nodes_truenodeids=[0])
tree5_attack("v5-leaf-outside", "TreeEnsemble: a branch leads to leaf 10^6.", nodes_truenodeids=[1000000])

# Classic models

attack = declare("ml-inconsistent", "crashes",
    "The attributes of an operator, mostly of ai.onnx.ml, contradict each other or are extreme.", "CWE-125",
    "onnxruntime, onnx.reference")


def classic_attack(name, description, op, inputs=("x",), outputs=("y",), source=None, initializers=(), **attributes):
    """Add an attack with an operator of ai.onnx.ml."""
    attack(name, description, network([node(op, inputs, outputs, domain="ai.onnx.ml", **attributes)], initializers,
        inputs=ROW, opsets=ML), source=source)


classic_attack("svm-vectors-lie", "SVMClassifier: vectors_per_class claims 1,000,000 support vectors.", "SVMClassifier",
    outputs=("l", "y"), kernel_type="LINEAR", coefficients=[1.0], support_vectors=[1.0] * 4,
    vectors_per_class=[1000000, 1], rho=[0.0], classlabels_ints=[0, 1],
    source="https://github.com/microsoft/onnxruntime/pull/27699")
classic_attack("svm-negative-vectors", "SVMClassifier: vectors_per_class is -1.", "SVMClassifier", outputs=("l", "y"),
    kernel_type="LINEAR", coefficients=[1.0], support_vectors=[1.0] * 4, vectors_per_class=[-1, 2], rho=[0.0],
    classlabels_ints=[0, 1])
classic_attack("svm-regressor-supports", "SVMRegressor: n_supports is 1,000 for one vector.", "SVMRegressor",
    kernel_type="RBF", kernel_params=[0.1, 0.0, 0.0], coefficients=[1.0], support_vectors=[1.0] * 4, n_supports=1000,
    rho=[0.0], source="https://github.com/microsoft/onnxruntime/pull/27950")
classic_attack("svm-kernel-params", "SVMRegressor: kernel_params has one element.", "SVMRegressor", kernel_type="POLY",
    kernel_params=[0.1], coefficients=[1.0], support_vectors=[1.0] * 4, n_supports=1, rho=[0.0])
classic_attack("linear-classifier-short", "LinearClassifier: 10 classes with 4 coefficients.", "LinearClassifier",
    outputs=("l", "y"), coefficients=[1.0] * 4, intercepts=[0.0], classlabels_ints=list(range(10)))
classic_attack("linear-regressor-targets", "LinearRegressor: 1,000 targets with 4 coefficients.", "LinearRegressor",
    coefficients=[1.0] * 4, intercepts=[0.0], targets=1000)
classic_attack("scaler-short", "Scaler: one offset and three scales for 4 features.", "Scaler", offset=[0.0], scale=[
    1.0] * 3)
classic_attack("imputer-long", "Imputer: 1,000 imputed values for 4 features.", "Imputer", imputed_value_floats=[
    0.0] * 1000, replaced_value_float=0.0)
classic_attack("label-encoder", "LabelEncoder: three keys and one value.", "LabelEncoder", keys_floats=[0.0, 1.0, 2.0],
    values_floats=[7.0])
classic_attack("category-mapper", "CategoryMapper: two strings and one integer.", "CategoryMapper", inputs=("s",),
    initializers=[strings("s", ["b"])], cats_strings=["a", "b"], cats_int64s=[1])
classic_attack("feature-vectorizer", "FeatureVectorizer: inputdimensions claims 1,000,000.", "FeatureVectorizer",
    inputdimensions=[1000000])

classic_attack("svm-rho", "SVMClassifier of three classes with one rho for three pairs.", "SVMClassifier", outputs=("l",
    "y"), kernel_type="LINEAR", coefficients=[1.0] * 6, support_vectors=[1.0] * 12, vectors_per_class=[1, 1, 1], rho=[
    0.0], classlabels_ints=[0, 1, 2])
classic_attack("svm-coefficients", "SVMClassifier of three vectors with one coefficient.", "SVMClassifier", outputs=(
    "l", "y"), kernel_type="LINEAR", coefficients=[1.0], support_vectors=[1.0] * 12, vectors_per_class=[1, 1, 1], rho=[
    0.0] * 3, classlabels_ints=[0, 1, 2])
classic_attack("svm-regressor-rho", "SVMRegressor without rho.", "SVMRegressor", kernel_type="LINEAR", coefficients=[
    1.0], support_vectors=[1.0] * 4, n_supports=1)
classic_attack("two-label-lists", "LinearClassifier with integer and string labels.", "LinearClassifier", outputs=("l",
    "y"), coefficients=[1.0] * 8, intercepts=[0.0, 0.0], classlabels_ints=[0, 1], classlabels_strings=["a", "b"])
classic_attack("tree-both-branches", "Both branches of each node lead to the next: 2^40 paths.",
    "TreeEnsembleRegressor", nodes_treeids=[0] * 41, nodes_nodeids=list(range(41)), nodes_featureids=[0] * 41,
    nodes_values=[0.5] * 41, nodes_modes=["BRANCH_LEQ"] * 40 + ["LEAF"], nodes_truenodeids=[*range(1, 41), 0],
    nodes_falsenodeids=[*range(1, 41), 0], target_treeids=[0], target_nodeids=[40], target_ids=[0],
    target_weights=[1.0], n_targets=1)
classic_attack("tree-depth", "A tree of 3,000 levels.", "TreeEnsembleRegressor",
    nodes_treeids=[0] * 6001, nodes_nodeids=list(range(6001)), nodes_featureids=[0] * 6001, nodes_values=[0.5] * 6001,
    nodes_modes=["BRANCH_LEQ"] * 3000 + ["LEAF"] * 3001, nodes_truenodeids=[*range(1, 3001), *[0] * 3001],
    nodes_falsenodeids=[*range(3001, 6001), *[0] * 3001], target_treeids=[0], target_nodeids=[3000], target_ids=[0],
    target_weights=[1.0], n_targets=1)
classic_attack("tree-nan", "A tree that compares with NaN, so that it always takes one branch.",
    "TreeEnsembleRegressor", nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2], nodes_featureids=[0] * 3, nodes_values=[
    float("nan"), 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0],
    nodes_falsenodeids=[2, 0, 0], target_treeids=[0], target_nodeids=[1], target_ids=[0], target_weights=[1.0],
    n_targets=1)
attack("n-gram-indexes", "TfIdfVectorizer with one index for three n-grams.", network([node("TfIdfVectorizer", ["x"],
    ["y"], mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=0, ngram_counts=[0, 2], ngram_indexes=[0],
    pool_int64s=[1, 2, 3, 4])], [], inputs=[value("x", INT64, [4])]))
attack("lstm-activations", "LSTM with one activation where three are needed.", network([node("LSTM", ["q", "w", "r"],
    ["y"], hidden_size=4, activations=["Tanh"])], [values("q", [0.0] * 6, FLOAT, [2, 1, 3]), values("w", [0.0] * 48,
    FLOAT, [1, 16, 3]), values("r", [0.0] * 64, FLOAT, [1, 16, 4])]))

attack = declare("input-shape", "crashes",
    "The inputs, attributes, subgraphs or declared outputs of a node do not fit one another, or are extreme.",
    "CWE-125", RUNTIMES)


def shape_attack(name, description, nodes, initializers, **options):
    """Add an attack of the class input-shape, whose model has these nodes and initializers."""
    attack(name, description, network(nodes, initializers, **options))


def zeros(name, *dims):
    """Return a float tensor of zeros."""
    return values(name, [0.0] * prod(dims), FLOAT, list(dims))


shape_attack("batch-normalization", "BatchNormalization of 4 channels with parameters for one.", [node(
    "BatchNormalization", ["q", "p", "p", "p", "p"], ["y"])], [zeros("q", 1, 4, 2, 2), zeros("p", 1)])
shape_attack("layer-normalization", "LayerNormalization of rows of 4 elements with a scale of 2 elements.",
    [node("LayerNormalization", ["x", "p"], ["y"])], [zeros("p", 2)])
shape_attack("skip-layer-normalization", "SkipLayerNormalization of rows of 4 elements with a gamma of 2 elements.",
    [node("SkipLayerNormalization", ["q", "q", "p"], ["y"], domain="com.microsoft")], [zeros("q", 1, 2, 4),
    zeros("p", 2)], opsets=MICROSOFT)
shape_attack("lstm-hidden-size", "LSTM of hidden_size 4,096 with weights for 4.", [node("LSTM", ["q", "w", "r"], ["y"],
    hidden_size=4096)], [zeros("q", 2, 1, 3), zeros("w", 1, 16, 3), zeros("r", 1, 16, 4)])
shape_attack("gru-directions", "A bidirectional GRU with the weights of one direction.", [node("GRU", ["q", "w", "r"], [
    "y"], hidden_size=2, direction="bidirectional")], [zeros("q", 2, 1, 3), zeros("w", 1, 6, 3), zeros("r", 1, 6, 2)])
shape_attack("conv-bias", "Conv of two channels with a bias for one.", [node("Conv", ["q", "w", "b"], ["y"])],
    [zeros("q", 1, 1, 3, 3), zeros("w", 2, 1, 1, 1), zeros("b", 1)])
shape_attack("conv-kernel-shape", "Conv with a kernel_shape of 9 x 9 for weights of 1 x 1.", [node("Conv", ["q", "w"], [
    "y"], kernel_shape=[9, 9])], [zeros("q", 1, 1, 12, 12), zeros("w", 1, 1, 1, 1)])
shape_attack("conv-pads", "Conv with one pad for two axes.", [node("Conv", ["q", "w"], ["y"], pads=[1])],
    [zeros("q", 1, 1, 3, 3), zeros("w", 1, 1, 1, 1)])
shape_attack("qlinear-conv-scales", "QLinearConv with three scales for two channels.", [node("QLinearConv",
    ["q", "s", "z", "w", "t", "z", "s", "z"], ["y"])], [values("q", [0] * 9, UINT8, [1, 1, 3, 3]), values("s", [1.0],
    FLOAT, []), values("z", [0], UINT8, []), values("w", [0, 0], UINT8, [2, 1, 1, 1]), values("t", [1.0] * 3)])
shape_attack("attention-bias", "Attention with a bias of one element.", [node("Attention", ["q", "w", "b"], ["y"],
    domain="com.microsoft", num_heads=1)], [zeros("q", 1, 2, 4), zeros("w", 4, 12), zeros("b", 1)], opsets=MICROSOFT)
shape_attack("attention-projections", "Attention with qkv_hidden_sizes beyond the size of its weights.",
    [node("Attention", ["q", "w", "b"], ["y"], domain="com.microsoft", num_heads=1, qkv_hidden_sizes=[4, 4, 4096])],
    [zeros("q", 1, 2, 4), zeros("w", 4, 12), zeros("b", 12)], opsets=MICROSOFT)
shape_attack("split-of-four", "Split of an axis of four into parts of 100.", [node("Split", ["t", "s"], ["y", "z"],
    axis=0)], [TABLE, ints("s", 100, 100)])
shape_attack("slice-steps", "Slice of two axes with one step.", [node("Slice", ["t", "a", "b", "c", "d"], ["y"])], [
    TABLE, ints("a", 0, 0), ints("b", 1, 1), ints("c", 0, 1), ints("d", 1)])
shape_attack("moe-experts", "MoE that chooses 9 of 2 experts.", [node("MoE", ["q", "p", "w", "", "w"], ["y"],
    domain="com.microsoft", k=9)], [zeros("q", 2, 4), zeros("p", 2, 2), zeros("w", 2, 4, 4)], opsets=MICROSOFT)
shape_attack("rotary-positions", "RotaryEmbedding at position 900,000 of 16.", [node("RotaryEmbedding",
    ["q", "i", "c", "c"], ["y"], domain="com.microsoft", num_heads=1)], [zeros("q", 1, 2, 8), values("i", [900000, 0],
    INT64, [1, 2]), zeros("c", 16, 4)], opsets=MICROSOFT)
shape_attack("declared-shape", "Concat of two tensors of four rows, whose output is declared with one row.",
    [node("Concat", ["t", "t"], ["y"], axis=0)], [TABLE], outputs=[value("y", FLOAT, [1, 2])])
shape_attack("if-outputs", "If with two outputs, whose branches have one.", [node("If", ["c"], ["y", "z"],
    then_branch=graph([node("Identity", ["t"], ["b"])], outputs=[value("b")]),
    else_branch=graph([node("Identity", ["t"], ["b"])], outputs=[value("b")]))], [TABLE, scalar("c", True, BOOL)])
shape_attack("loop-body-inputs", "Loop whose body has one input in place of three.", [node("Loop", ["n", "", "t"], [
    "y"], body=graph([node("Identity", ["i"], ["o"])], inputs=[value("i", INT64, [])], outputs=[value("o"), value(
    "t")]))], [TABLE, scalar("n", 2)])
shape_attack("scatter-updates", "ScatterND of rows of two with updates of one element.", [node("ScatterND", ["t", "i",
    "u"], ["y"])], [TABLE, values("i", [0], INT64, [1, 1]), values("u", [6.0], FLOAT, [1, 1])])
shape_attack("gather-nd-rank", "GatherND with three coordinates for rank two.", [node("GatherND", ["t", "i"], [
    "y"])], [TABLE, values("i", [0, 0, 0], INT64, [1, 3])])
shape_attack("reflected-pad", "Pad that reflects 100 elements of an axis of two.", [node("Pad", ["t", "p"], ["y"],
    mode="reflect")], [TABLE, ints("p", 0, 100, 0, 0)])
shape_attack("beam-search-length", "BeamSearch of 2^31 - 1 steps.", [node("BeamSearch", ["i", "m", "m", "n", "n"], [
    "y"], domain="com.microsoft")], [values("i", [0], INT32, [1, 1]), values("m", [(1 << 31) - 1], INT32), values("n", [
    1], INT32)], opsets=MICROSOFT)
