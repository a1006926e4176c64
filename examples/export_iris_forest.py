"""Train a scaler and a random forest on the iris flowers and export the pipeline to iris_forest.onnx with skl2onnx."""

from pathlib import Path

import numpy as np
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def main() -> None:
    """Train, report the accuracy and export."""
    iris = load_iris()
    # The labels are names, not numbers, so that the model has string attributes, and an output with maps that have
    # string keys.
    species = iris.target_names[iris.target]
    # The exported model takes float32, so the scaler and the forest are trained on float32 too.
    measurements = iris.data.astype(np.float32)
    train_data, test_data, train_species, test_species = train_test_split(measurements, species, random_state=0)

    forest = RandomForestClassifier(n_estimators=10, max_depth=5, random_state=0)
    pipeline = make_pipeline(StandardScaler(), forest)
    pipeline.fit(train_data, train_species)
    accuracy = pipeline.score(test_data, test_species)

    model = to_onnx(
        pipeline,
        name="iris_forest",
        initial_types=[("measurements", FloatTensorType([None, 4]))],
        # ZipMap converts the probabilities to a sequence of maps from species to probability.
        options={id(forest): {"zipmap": True}},
    )
    # skl2onnx collects the operator sets in a Python set, whose order changes from run to run.
    model.opset_import.sort(key=lambda opset: opset.domain)
    path = Path(__file__).with_name("iris_forest.onnx")
    path.write_bytes(model.SerializeToString())
    print(f"{path.name}: {path.stat().st_size} bytes, test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
