"""Makes Hypothesis draw the same examples in every run."""

import pytest
from hypothesis import HealthCheck, Phase, settings

pytest.register_assert_rewrite("wire", "stored_tensors")

settings.register_profile(
    "same",
    deadline=None,
    derandomize=True,
    max_examples=60,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],  # to explain a failure takes longer than to find it
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("same")
