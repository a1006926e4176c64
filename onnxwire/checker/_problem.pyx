# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Defines `Problem`, one violation of a rule.

`Problems` stores columns and makes instances on request. Path and message are computed when they are read.
"""
cimport cython
from cpython.object cimport PyTypeObject
from cython cimport critical_section
from libc.stdint cimport int64_t


@cython.final
@cython.no_gc
cdef class Problem:
    """A violation of a rule and its position. Immutable; instances with equal attributes are equal.

    rule: the id of the rule, such as "node-op-type-present"; severity: "error", "warning" or "note"; path: the message
    or field, such as graph.node[3], "" for the document itself; offset: the byte of the document at which the faulty
    message, record or list element begins, None if the checked message was edited or is not the root of its document;
    message: a text, the fault and its remedy.
    """
    cdef readonly str rule
    cdef readonly str severity
    cdef int64_t byte_offset     # -1 for None
    cdef object finding          # computes path and message; None once they are known
    cdef int64_t row
    cdef object cached_path
    cdef object cached_message

    @critical_section
    def __init__(self, str rule, str severity, str path, offset, str message):
        self.rule = rule
        self.severity = severity
        self.cached_path = path
        self.byte_offset = -1 if offset is None else offset
        self.cached_message = message

    cdef int format_message(self) except -1:
        """Compute path and message, once."""
        if self.cached_path is None:
            self.cached_path = self.finding.table.path(self.row)
            self.cached_message = self.finding.message(self.row)
            self.finding = None
        return 0

    @property
    @critical_section
    def path(self):
        self.format_message()
        return self.cached_path

    @property
    @critical_section
    def offset(self):
        return None if self.byte_offset < 0 else self.byte_offset

    @property
    @critical_section
    def message(self):
        self.format_message()
        return self.cached_message

    cdef tuple content(self):
        """Return the five attributes."""
        self.format_message()
        return self.rule, self.severity, self.cached_path, self.offset, self.cached_message

    @critical_section
    def __eq__(self, other):
        if not isinstance(other, Problem):
            return NotImplemented
        return self.content() == (<Problem>other).content()

    @critical_section
    def __hash__(self):
        return hash(self.content())

    @critical_section
    def __reduce__(self):
        return Problem, self.content()

    @critical_section
    def __repr__(self):
        return "Problem(rule={!r}, severity={!r}, path={!r}, offset={!r}, message={!r})".format(*self.content())

    @critical_section
    def __str__(self):
        position = [f"byte {self.byte_offset:,}"] if self.byte_offset >= 0 else []
        if self.path:
            position.append(self.path)
        return ": ".join([*position, f"{self.message} [{self.rule}]"])


@critical_section
def make_problem(str rule, str severity, finding, int64_t row, int64_t offset):
    """Return the problem of one row of a `Finding` (facts.py). offset: -1 for None."""
    cdef Problem problem = Problem.__new__(Problem)
    problem.rule = rule
    problem.severity = severity
    problem.byte_offset = offset
    problem.finding = finding
    problem.row = row
    return problem


# Pickles, and the repr of the class, contain the public module.
(<PyTypeObject*>Problem).tp_name = b"onnxwire.Problem"
