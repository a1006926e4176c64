# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""One violation of a rule by one message.

`Problems` stores columns and makes instances on request; path and message are computed when they are read.
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
    or field, such as graph.node[3], "" for the document itself; offset: the byte of the document at which the message
    begins, or None in an edited message; message: the fault and its remedy.
    """
    cdef readonly str rule
    cdef readonly str severity
    cdef int64_t byte            # offset, -1 for None
    cdef object found            # computes path and message; None afterwards
    cdef int64_t row
    cdef object path_
    cdef object message_

    @critical_section
    def __init__(self, str rule, str severity, str path, offset, str message):
        self.rule = rule
        self.severity = severity
        self.path_ = path
        self.byte = -1 if offset is None else offset
        self.message_ = message

    cdef int make(self) except -1:
        if self.path_ is None:
            self.path_ = self.found.table.path(self.row)
            self.message_ = self.found.message(self.row)
            self.found = None
        return 0

    @property
    @critical_section
    def path(self):
        self.make()
        return self.path_

    @property
    @critical_section
    def offset(self):
        return None if self.byte < 0 else self.byte

    @property
    @critical_section
    def message(self):
        self.make()
        return self.message_

    cdef tuple content(self):
        self.make()
        return self.rule, self.severity, self.path_, self.offset, self.message_

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
        where = [f"byte {self.byte:,}"] if self.byte >= 0 else []
        if self.path:
            where.append(self.path)
        return ": ".join([*where, f"{self.message} [{self.rule}]"])


@critical_section
def make_problem(str rule, str severity, found, int64_t row, int64_t offset):
    """Return the problem of one row of a finding; offset: -1 for None."""
    cdef Problem problem = Problem.__new__(Problem)
    problem.rule = rule
    problem.severity = severity
    problem.byte = offset
    problem.found = found
    problem.row = row
    return problem


# Pickles and reprs use the public module.
(<PyTypeObject*>Problem).tp_name = b"onnxwire.Problem"
