"""Writes problems in the format SARIF 2.1.0, which code hosts and editors read.

Source: Static Analysis Results Interchange Format (SARIF) Version 2.1.0, OASIS Standard, 27 March 2020.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote

from onnxwire._version import __version__
from onnxwire.checker.registry import checked, rules
from onnxwire.io.remote.address import is_address

if TYPE_CHECKING:
    from onnxwire.checker._problem import Problem
    from onnxwire.checker.problems import Problems
    from onnxwire.checker.registry import Rule

_SECURITY_SEVERITIES = {"error": "8.0", "warning": "5.0", "note": "2.0"}  # scores on the scale of CVSS
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_URI_CHARACTERS = "%:/?#[]@!$&'()*+,;="  # characters that URIs of addresses keep, as well as letters, digits and _.-~


class SarifWriter:
    """Writes a log of one run, one result at a time, so that memory does not grow with the number of results."""

    def __init__(self, out: IO[str], untrusted: bool = False) -> None:
        self.out = out
        self.rules = [rule for id, rule in rules(untrusted).items() if id in checked(untrusted)]
        self.rule_indices = {rule.id: index for index, rule in enumerate(self.rules)}
        self.faults: list[dict[str, Any]] = []  # notifications about files that could not be checked
        self.omitted: dict[str, dict[str, int]] = {}  # `Problems.omitted` by the URI of the file
        self.is_first = True  # whether no result has been written
        head = json.dumps({"$schema": _SCHEMA, "version": "2.1.0"})[:-1]
        out.write(f'{head}, "runs": [{{\n"tool": {json.dumps({"driver": self._driver()})},\n"results": [')

    def _driver(self) -> dict[str, Any]:
        """Return the toolComponent object of onnxwire."""
        return {
            "name": "onnxwire",
            "version": __version__,
            "rules": [_rule_descriptor(rule) for rule in self.rules],
        }

    def add(self, file: str, problems: Problems) -> None:
        """Write the problems of a file."""
        artifact = {"uri": uri_of(file)}
        for problem in problems:
            self.out.write("\n" if self.is_first else ",\n")
            self.is_first = False
            self.out.write(json.dumps(self._result(artifact, problem, problems.in_baseline)))
        if problems.omitted:
            self.omitted[artifact["uri"]] = problems.omitted

    def _result(self, artifact: dict[str, str], problem: Problem, in_baseline: int | None) -> dict[str, Any]:
        """Return the result object of a problem. in_baseline: as in `Problems`; None for a check without a baseline."""
        location: dict[str, Any] = {"physicalLocation": {"artifactLocation": artifact}}
        if problem.offset is not None:
            location["physicalLocation"]["region"] = {"byteOffset": problem.offset}
        if problem.path:
            location["logicalLocations"] = [{"fullyQualifiedName": problem.path}]
        return {
            "ruleId": problem.rule,
            "ruleIndex": self.rule_indices[problem.rule],
            "level": problem.severity,
            "message": {"text": problem.message},
            "locations": [location],
        } | ({} if in_baseline is None else {"baselineState": "new"})

    def add_fault(self, file: str, reason: str) -> None:
        """Record that a file could not be checked."""
        location = {"physicalLocation": {"artifactLocation": {"uri": uri_of(file)}}}
        self.faults.append({"level": "error", "message": {"text": reason}, "locations": [location]})

    def finish(self) -> None:
        """Write the end of the log."""
        invocation: dict[str, Any] = {"executionSuccessful": not self.faults}
        if self.faults:
            invocation["toolExecutionNotifications"] = self.faults
        properties = f',\n"properties": {json.dumps({"omitted": self.omitted})}' if self.omitted else ""
        self.out.write(f'\n],\n"invocations": [{json.dumps(invocation)}]{properties}\n}}]}}\n')


def _rule_descriptor(rule: Rule) -> dict[str, Any]:
    """Return the reportingDescriptor of a rule. The tags of security rules are those that code hosts understand."""
    properties: dict[str, Any] = {"scope": rule.scope, "source": rule.source}
    descriptor = {
        "id": rule.id,
        "shortDescription": {"text": rule.text},
        "defaultConfiguration": {"level": rule.severity},
        "properties": properties,
    }
    if rule.explanation:
        descriptor["fullDescription"] = descriptor["help"] = {"text": rule.explanation}
    if rule.weaknesses:
        weaknesses = [name.lower() for name in rule.weaknesses if name.startswith("CWE-")]
        properties["tags"] = ["security", *(f"external/cwe/{name}" for name in weaknesses)]
        properties["weaknesses"] = list(rule.weaknesses)
        properties["security-severity"] = _SECURITY_SEVERITIES[rule.severity]
    return descriptor


def uri_of(path: str) -> str:
    """Return the URI of a file. path: a path or an address.

    The URI is relative for a relative path, so that logs of different machines can be compared.
    """
    if is_address(path):
        return quote(path, safe=_URI_CHARACTERS)
    if os.path.isabs(path):
        return Path(path).as_uri()
    return quote(os.fsencode(Path(path).as_posix()))
