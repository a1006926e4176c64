"""Run one test over a long table of cases and report the cases that fail."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each(names: str, cases: Iterable[Any], ids: Callable[[Any], str] | Iterable[str] | None = None) -> Callable:
    """Return a decorator that makes a test run once for each case, as `pytest.mark.parametrize` does, but as one test.

    The decorated test raises the first 20 exceptions as one BaseExceptionGroup. `pytest.skip` ends the test at once.

    With a thousand small cases, pytest takes longer to collect and report them as separate tests than to run them.
    All cases share the fixtures of the test. names: the parameters of a case, separated by commas. ids: the texts that
    identify the cases in a failure, or a function that returns the text of a case; by default `repr`.
    """
    table = list(cases)
    arguments = [name.strip() for name in names.split(",")]
    make_text = ids if callable(ids) else repr
    texts = [make_text(case) for case in table] if ids is None or callable(ids) else list(ids)

    def decorate(test: Callable) -> Callable:
        @functools.wraps(test)
        def loop(**fixtures: Any) -> None:
            assert table, "there are no cases"
            failures = []
            for case, text in zip(table, texts, strict=True):
                values = [case] if len(arguments) == 1 else case
                try:
                    test(**fixtures, **dict(zip(arguments, values, strict=True)))
                # pytest.raises raises the latter if its block raises no exception.
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"case: {text}")
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} cases failed", failures[:20])

        signature = inspect.signature(test)
        fixture_parameters = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        loop.__signature__ = signature.replace(parameters=fixture_parameters)
        return loop

    return decorate
