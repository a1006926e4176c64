"""Train a small convolutional network on scikit-learn's digits and export it to digits_cnn.onnx with PyTorch."""

from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

EPOCHS = 15
BATCH_SIZE = 64


class DigitsNet(nn.Module):
    """A network that classifies grey images of digits with 8 x 8 pixels."""

    def __init__(self) -> None:
        """Make the layers."""
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, kernel_size=3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(32 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return ten logits per image, one for each digit from 0 to 9."""
        return self.classifier(self.features(image))


def train(network: DigitsNet, images: torch.Tensor, labels: torch.Tensor) -> None:
    """Train the network in place."""
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    network.train()
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images)).split(BATCH_SIZE):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(images[batch]), labels[batch]).backward()
            optimizer.step()


def export(network: DigitsNet, example: torch.Tensor, path: Path) -> None:
    """Write the network to one ONNX file. Its batch dimension is symbolic."""
    program = torch.onnx.export(
        network,
        (example,),
        dynamo=True,
        input_names=["image"],
        output_names=["logits"],
        dynamic_shapes={"image": {0: torch.export.Dim("batch")}},
        # The exporter's optimizer would fold the batch normalizations into the convolutions.
        optimize=False,
    )
    # The exporter writes Python stack traces into nodes; these traces contain paths of this machine.
    for node in program.model.graph:
        node.metadata_props.pop("pkg.torch.onnx.stack_trace", None)
    program.save(path, external_data=False)


def main() -> None:
    """Train, report the accuracy and export."""
    torch.manual_seed(0)
    digits = load_digits()
    # The values of pixels are from 0 to 16.
    images = torch.from_numpy((digits.images / 16).astype(np.float32)).unsqueeze(1)
    labels = torch.from_numpy(digits.target)
    train_images, test_images, train_labels, test_labels = train_test_split(images, labels, random_state=0)

    network = DigitsNet()
    train(network, train_images, train_labels)
    network.eval()
    with torch.no_grad():
        accuracy = (network(test_images).argmax(1) == test_labels).float().mean().item()

    path = Path(__file__).with_name("digits_cnn.onnx")
    export(network, test_images[:2], path)
    print(f"{path.name}: {path.stat().st_size} bytes, test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
