"""Random examples of tests: few and the same in each run, or with `--long` many and different in each run."""

from hypothesis import HealthCheck, Phase, settings

DEFAULT_EXAMPLES = 60  # the `count` of tests without `@examples`
COMMON_SETTINGS = {
    "deadline": None,
    "phases": set(Phase) - {Phase.explain},  # explaining a failure takes longer than finding it
    "suppress_health_check": list(HealthCheck),
}
settings.register_profile("short", derandomize=True, max_examples=DEFAULT_EXAMPLES // 5, **COMMON_SETTINGS)
settings.register_profile("long", max_examples=DEFAULT_EXAMPLES * 2, **COMMON_SETTINGS)

IS_LONG = False


def choose_run(is_long: bool) -> None:
    """Select the short or the long run. Must be called before the first test module is imported."""
    global IS_LONG
    IS_LONG = is_long
    settings.load_profile("long" if is_long else "short")


def examples(count: int) -> settings:
    """Return a decorator that sets the number of examples: count // 5, but at least 2, or count * 2 with `--long`."""
    return settings(max_examples=max(count * settings.default.max_examples // DEFAULT_EXAMPLES, 2))
