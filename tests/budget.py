"""How much the tests try: a little, the same in every run, or with `--long` much more, different in each run."""

from hypothesis import HealthCheck, Phase, settings

USUAL_COUNT = 60  # examples of a test that does not give a number
COMMON = {
    "deadline": None,
    "phases": set(Phase) - {Phase.explain},  # explaining a failure takes longer than finding it
    "suppress_health_check": list(HealthCheck),
}
settings.register_profile("short", derandomize=True, max_examples=USUAL_COUNT // 5, **COMMON)
settings.register_profile("long", max_examples=USUAL_COUNT * 2, **COMMON)

IS_LONG = False


def choose(is_long: bool) -> None:
    """Choose the short or the long run. Call it before any test module is imported."""
    global IS_LONG
    IS_LONG = is_long
    settings.load_profile("long" if is_long else "short")


def examples(count: int) -> settings:
    """A decorator for a test that is to draw `count` examples: a fifth of them, or with `--long` twice as many."""
    return settings(max_examples=max(count * settings.default.max_examples // USUAL_COUNT, 2))
