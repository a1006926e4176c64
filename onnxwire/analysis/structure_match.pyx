# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Matches the vertices of two flat graphs by structure, whatever their names.

Vertices are matched in three steps: by hashes of all their ancestors and descendants; by hashes of small
neighbourhoods; and along edges from vertices that already match. So an edit affects only the vertices around it.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport qsort

from onnxwire.analysis.flat_graph cimport INITIALIZER, NODE, NONE, Edge, FlatGraph, Vertex, grown
from onnxwire.engine.memory cimport free, malloc

from array import array

UNMATCHED = NONE

cdef enum:
    MAX_REPAIRS = 10         # maximum number of repair passes
    MAX_VOTES = 64           # maximum number of edges of a vertex, and of consumers of a value, that a repair examines

cdef tuple ALL_DIRECTIONS = ("both", "up", "down")
cdef tuple NEAR_RADII = (4, 2, 1)

# The maximum number of votes in all repairs: graphs of many equal vertices could go on for ever.
_MIN_ALL_VOTES = 2_000_000
_ALL_VOTES_PER_EDGE = 4

cdef struct Entry:
    uint64_t key
    int32_t side             # 0: of `old`
    int32_t vertex

cdef struct Match:
    int32_t old
    int32_t new

cdef struct Pair:
    int32_t position         # pairs are matched in this order
    int32_t old
    int32_t new


@cython.final
cdef class Edges:
    """The edges of a graph, sorted by consumer, and by source."""

    cdef int32_t n
    cdef int32_t n_edges
    cdef int32_t[::1] starts, sources, outputs, slots  # edges of vertex v: starts[v] to starts[v + 1]
    cdef int32_t[::1] use_starts, users, user_slots, user_outputs    # edges of a source

    def __init__(self, FlatGraph graph not None):
        """Sort the edges of a graph, and free the unsorted ones. Edges of one vertex keep their order."""
        cdef int32_t i, j, n = graph.n, count = graph.n_edges, n_uses = 0
        cdef const Edge* edge
        if graph.edges == NULL and count:
            raise ValueError("the edges of this graph are already sorted")
        self.n, self.n_edges = n, count
        self.starts, self.use_starts = numbers(n + 1), numbers(n + 1)
        self.sources, self.outputs, self.slots = numbers(count), numbers(count), numbers(count)
        for i in range(count):
            self.starts[graph.edges[i].consumer + 1] += 1
        for i in range(n):
            self.starts[i + 1] += self.starts[i]
        cdef int32_t[::1] next = array("i", self.starts)
        for i in range(count):
            edge = &graph.edges[i]
            j = next[edge.consumer]
            next[edge.consumer] += 1
            self.sources[j], self.outputs[j], self.slots[j] = edge.source, edge.output, edge.slot
        free(graph.edges)
        graph.edges = NULL
        for j in range(count):
            if self.sources[j] != NONE:
                self.use_starts[self.sources[j] + 1] += 1
                n_uses += 1
        self.users, self.user_slots, self.user_outputs = numbers(n_uses), numbers(n_uses), numbers(n_uses)
        for i in range(n):
            self.use_starts[i + 1] += self.use_starts[i]
        next = array("i", self.use_starts)
        for i in range(n):
            for j in range(self.starts[i], self.starts[i + 1]):
                if self.sources[j] != NONE:
                    count = next[self.sources[j]]
                    next[self.sources[j]] += 1
                    self.users[count], self.user_slots[count] = i, self.slots[j]
                    self.user_outputs[count] = self.outputs[j]

    def __getitem__(self, int32_t vertex):
        """Return the edges of a vertex: tuples of source, output of the source, and slot."""
        if not 0 <= vertex < self.n:
            raise IndexError("no such vertex")
        cdef int32_t j
        return [
            (self.sources[j], self.outputs[j], self.slots[j])
            for j in range(self.starts[vertex], self.starts[vertex + 1])
        ]

    cdef int32_t[::1] order(self):
        """Return the vertices, sources first; vertices on cycles, and their consumers, are last."""
        cdef int32_t[::1] order = numbers(self.n), waiting = numbers(self.n)
        cdef int32_t v, j, count = 0, at = 0
        for v in range(self.n):
            for j in range(self.starts[v], self.starts[v + 1]):
                waiting[v] += self.sources[j] != NONE
        for v in range(self.n):
            if waiting[v] == 0:
                order[count] = v
                count += 1
        while at < count:
            v = order[at]
            at += 1
            for j in range(self.use_starts[v], self.use_starts[v + 1]):
                waiting[self.users[j]] -= 1
                if waiting[self.users[j]] == 0:
                    order[count] = self.users[j]
                    count += 1
        for v in range(self.n):
            if waiting[v] > 0:
                order[count] = v
                count += 1
        return order

    cdef uint64_t hash_sources(self, const uint64_t[::1] hashes, int32_t v) noexcept nogil:
        """Return a hash of a vertex and its sources, in order."""
        cdef uint64_t value = hashes[v]
        cdef int32_t j
        for j in range(self.starts[v], self.starts[v + 1]):
            value = mixed(value, self.hash_end(hashes, self.sources[j], self.outputs[j], self.slots[j]))
        return value

    cdef uint64_t hash_users(self, const uint64_t[::1] hashes, int32_t v) noexcept nogil:
        """Return a hash of a vertex and its consumers, in any order."""
        cdef uint64_t total = 0
        cdef int32_t j
        for j in range(self.use_starts[v], self.use_starts[v + 1]):
            total += self.hash_user(hashes, j)
        return mixed(hashes[v], total) if total else hashes[v]

    cdef inline uint64_t hash_user(self, const uint64_t[::1] hashes, int32_t j) noexcept nogil:
        """Return a hash of an edge to a consumer."""
        return self.hash_end(hashes, self.users[j], self.user_outputs[j], self.user_slots[j])

    cdef inline uint64_t hash_end(
        self, const uint64_t[::1] hashes, int32_t vertex, int32_t output, int32_t slot
    ) noexcept nogil:
        cdef uint64_t place = (<uint64_t>output << 32) ^ (<uint64_t>slot & 0xFFFFFFFFULL)
        return mixed(hashes[vertex] if vertex != NONE else 1, place)


@cython.final
cdef class Matching:
    """The matching vertices of two graphs: for each vertex, the index of its match in the other one, or UNMATCHED."""

    cdef readonly object new_of, old_of      # array("i")
    cdef int32_t[::1] news, olds             # the same
    cdef readonly tuple edges                # the edges of both graphs
    cdef Edges old, new
    cdef FlatGraph old_graph, new_graph
    cdef Match* queue                        # matches whose neighbours may match, too
    cdef int32_t n_queue, queue_capacity
    cdef dict nested_sources
    cdef int32_t[2] n_left
    cdef int64_t votes_left

    def __init__(self, FlatGraph old not None, FlatGraph new not None, *, bint by_name):
        """by_name: match nodes of one name and operator first, where the name is unique in both models."""
        self.old_graph, self.new_graph = old, new
        self.old, self.new = Edges(old), Edges(new)
        self.edges = self.old, self.new
        self.news = self.new_of = array("i", [NONE]) * self.old.n
        self.olds = self.old_of = array("i", [NONE]) * self.new.n
        self.nested_sources = {}
        self.n_left[0], self.n_left[1] = self.old.n, self.new.n
        self.votes_left = max(_MIN_ALL_VOTES, _ALL_VOTES_PER_EDGE * (self.old.n_edges + self.new.n_edges))
        cdef tuple labels = (hashed_labels(old), hashed_labels(new))
        cdef tuple operators, level
        cdef int radius
        if by_name:
            self.match_unique(hashed_names(old), hashed_names(new), NODE)
        for direction in ALL_DIRECTIONS:
            self.match_unique(*self.hash_all(labels, direction))
        if self.n_left[0] and self.n_left[1]:
            # Hashes are computed again at each step, since those of all steps would be most of the memory.
            for radius in NEAR_RADII:
                level = self.hash_neighbourhoods(labels, radius)
                self.spread(level[0], level[1])
            level = None
            self.spread(labels[0], labels[1])
            for radius in NEAR_RADII:
                self.match_unique(*self.hash_neighbourhoods(labels, radius))
                self.spread(labels[0], labels[1])
            for direction in ALL_DIRECTIONS:
                self.match_groups(self.hash_all(labels, direction), labels)
            for radius in NEAR_RADII:
                self.match_groups(self.hash_neighbourhoods(labels, radius), labels)
        operators = (hashed_operators(old), hashed_operators(new))
        self.spread(operators[0], operators[1])
        self.match_groups(labels, labels)
        self.spread(operators[0], operators[1])
        for _ in range(MAX_REPAIRS):
            if not self.repair():
                break
            self.spread(operators[0], operators[1])
        if self.n_left[0] and self.n_left[1]:
            self.match_groups((hashed_names(old), hashed_names(new)), operators, NODE)

    cdef tuple hash_all(self, tuple labels, str direction):
        """Return hashes of each vertex with all its ancestors ("up"), all its descendants ("down"), or both."""
        return hash_side(self.old, labels[0], direction), hash_side(self.new, labels[1], direction)

    cdef tuple hash_neighbourhoods(self, tuple labels, int radius):
        """Return hashes of each vertex with those around it, up to a number of edges away."""
        cdef tuple level = labels
        for _ in range(radius):
            level = (hash_near(self.old, level[0]), hash_near(self.new, level[1]))
        return level

    def __dealloc__(self):
        free(self.queue)

    def rewired(self):
        """Return the matched vertices of `old` with an edge that has no counterpart, or whose match has more edges."""
        cdef int32_t v, match
        return [
            v for v, match in enumerate(self.new_of)
            if match != NONE and (
                self.new.starts[match + 1] - self.new.starts[match] != self.old.starts[v + 1] - self.old.starts[v]
                or self.first_disagreeing(v, self.old.starts[v]) >= 0
            )
        ]

    def renamed(self):
        """Return the new names of nodes and values that match: dicts by old name under "nodes" and "values"."""
        cdef FlatGraph old = self.old_graph, new = self.new_graph
        cdef dict nodes = {}, values = {}
        cdef int32_t v, match, i, k
        for v in range(old.n):
            match = self.news[v]
            if match == NONE:
                continue
            if old.vertices[v].kind == NODE and old.vertices[v].name != new.vertices[match].name:
                nodes[old.interner.text(old.vertices[v].name)] = new.interner.text(new.vertices[match].name)
            k = new.vertices[match].first_output
            for i in range(old.vertices[v].first_output, old.vertices[v + 1].first_output):
                if k == new.vertices[match + 1].first_output:
                    break
                if old.outputs[i] != new.outputs[k]:
                    values[old.interner.text(old.outputs[i])] = new.interner.text(new.outputs[k])
                k += 1
        return {"nodes": nodes, "values": values}

    def unequal(self, bint by_labels):
        """Return the vertices of `old` that have no match, or whose messages may differ in more than names and edges.

        by_labels: whether vertices of one label have equal attributes and payloads.
        """
        cdef FlatGraph old = self.old_graph, new = self.new_graph
        cdef const Vertex* one
        cdef const Vertex* other
        cdef int32_t v, count = 0
        cdef int32_t[::1] result = (found := numbers(old.n))
        for v in range(old.n):
            if self.news[v] != NONE:
                one, other = &old.vertices[v], &new.vertices[self.news[v]]
                if (
                    by_labels and one.label == other.label and (one.kind == NODE or one.kind == INITIALIZER)
                    and not one.has_notes and not other.has_notes
                ):
                    continue
            result[count] = v
            count += 1
        return found[:count]

    def is_alike(self, int32_t vertex):
        """Return whether a matched vertex of `old` and its match have one label."""
        if not 0 <= vertex < self.old.n or self.news[vertex] == NONE:
            raise IndexError("no such match")
        return self.old_graph.vertices[vertex].label == self.new_graph.vertices[self.news[vertex]].label

    cdef bint have_one_operator(self, int32_t old, int32_t new) noexcept:
        return self.old_graph.vertices[old].operator == self.new_graph.vertices[new].operator

    cdef int match(self, int32_t old, int32_t new) except -1:
        self.n_left[0] -= self.news[old] == NONE
        self.n_left[1] -= self.olds[new] == NONE
        self.news[old] = new
        self.olds[new] = old
        return self.enqueue(old, new)

    cdef int enqueue(self, int32_t old, int32_t new) except -1:
        if self.n_queue == self.queue_capacity:
            self.queue_capacity = grown(<void**>&self.queue, self.queue_capacity, sizeof(Match))
        self.queue[self.n_queue] = Match(old, new)
        self.n_queue += 1
        return 0

    cdef Py_ssize_t unmatched(
        self, Entry** entries, const uint64_t[::1] ours, const uint64_t[::1] theirs, int kind
    ) except -1:
        """Allocate the unmatched vertices of both models with their hashes, sorted. Returns their number.

        kind: the kind of the vertices, -1 for all. The caller frees the entries; there are none if one model has none
        left.
        """
        cdef Py_ssize_t count = 0
        cdef int32_t v
        entries[0] = NULL
        if self.n_left[0] == 0 or self.n_left[1] == 0:
            return 0
        cdef Entry* found = <Entry*>malloc((self.n_left[0] + self.n_left[1]) * sizeof(Entry))
        if found == NULL:
            raise MemoryError
        for v in range(self.old.n):
            if self.news[v] == NONE and (kind < 0 or self.old_graph.vertices[v].kind == kind):
                found[count] = Entry(ours[v], 0, v)
                count += 1
        for v in range(self.new.n):
            if self.olds[v] == NONE and (kind < 0 or self.new_graph.vertices[v].kind == kind):
                found[count] = Entry(theirs[v], 1, v)
                count += 1
        qsort(found, count, sizeof(Entry), compare_entries)
        entries[0] = found
        return count

    def match_unique(self, const uint64_t[::1] ours, const uint64_t[::1] theirs, int kind=-1):
        """Match vertices whose hash no other unmatched vertex of their model has."""
        cdef Entry* entries
        cdef Py_ssize_t i = 0, end, count = self.unmatched(&entries, ours, theirs, kind)
        try:
            while i < count:
                end = end_of_group(entries, i, count)
                if end - i == 2 and entries[i].side == 0 and entries[i + 1].side == 1:
                    self.match(entries[i].vertex, entries[i + 1].vertex)
                i = end
        finally:
            free(entries)

    cdef int match_groups(self, tuple level, tuple spread_by, int kind=-1) except -1:
        """Match vertices of equal hashes one after another; spread each match before the next one is chosen."""
        cdef Entry* entries
        cdef Py_ssize_t i = 0, end, middle, count = self.unmatched(&entries, level[0], level[1], kind)
        cdef list groups = []
        try:
            while i < count:
                end = end_of_group(entries, i, count)
                middle = i
                while middle < end and entries[middle].side == 0:
                    middle += 1
                if i < middle < end:
                    groups.append((entries[i].vertex, i, middle, end))
                i = end
            groups.sort()
            for _, i, middle, end in groups:
                self.match_group(&entries[i], middle - i, &entries[middle], end - middle, spread_by)
        finally:
            free(entries)
        return 0

    cdef int match_group(
        self, const Entry* ours, Py_ssize_t n_ours, const Entry* theirs, Py_ssize_t n_theirs, tuple spread_by
    ) except -1:
        """Match the vertices of a group in order, first those with equal names."""
        cdef Py_ssize_t i, next = 0
        cdef int32_t old, new
        cdef const Vertex* old_vertices = self.old_graph.vertices
        cdef const Vertex* new_vertices = self.new_graph.vertices
        cdef dict known = {}
        cdef const uint64_t[::1] our_level = spread_by[0], their_level = spread_by[1]
        for i in range(n_theirs):
            known.setdefault(new_vertices[theirs[i].vertex].name, theirs[i].vertex)
        for i in range(n_ours):
            old = ours[i].vertex
            if self.news[old] != NONE:
                continue
            new = known.get(old_vertices[old].name, NONE)
            if new == NONE or self.olds[new] != NONE:
                while next < n_theirs and self.olds[theirs[next].vertex] != NONE:
                    next += 1
                if next == n_theirs:
                    break
                new = theirs[next].vertex
            self.match(old, new)
            self.spread_queue(our_level, their_level)
        return 0

    cdef int spread(self, const uint64_t[::1] ours, const uint64_t[::1] theirs) except -1:
        """Match neighbours of matching vertices with equal hashes and the same slot, until no more are found.

        Starts from all matches with unmatched neighbours.
        """
        cdef int32_t v, j
        cdef bytearray is_queued
        self.n_queue = 0
        if self.n_left[0] == 0 or self.n_left[1] == 0:
            return 0
        is_queued = bytearray(self.old.n)
        for v in range(self.old.n):
            if self.news[v] != NONE:
                continue
            for j in range(self.old.starts[v], self.old.starts[v + 1]):
                if self.old.sources[j] != NONE:
                    self.enqueue_once(self.old.sources[j], is_queued)
            for j in range(self.old.use_starts[v], self.old.use_starts[v + 1]):
                self.enqueue_once(self.old.users[j], is_queued)
        return self.spread_queue(ours, theirs)

    cdef int enqueue_once(self, int32_t old, bytearray is_queued) except -1:
        if self.news[old] == NONE or is_queued[old]:
            return 0
        is_queued[old] = True
        return self.enqueue(old, self.news[old])

    cdef int spread_queue(self, const uint64_t[::1] ours, const uint64_t[::1] theirs) except -1:
        """Spread the latest matches."""
        cdef Match last
        while self.n_queue:
            self.n_queue -= 1
            last = self.queue[self.n_queue]
            self.spread_to_sources(last.old, last.new, ours, theirs)
            self.spread_to_consumers(last.old, last.new, ours, theirs)
        return 0

    cdef int spread_to_sources(
        self, int32_t old, int32_t new, const uint64_t[::1] ours, const uint64_t[::1] theirs
    ) except -1:
        cdef int32_t j, k, source, other
        for j in range(self.old.starts[old], self.old.starts[old + 1]):
            source = self.old.sources[j]
            if source == NONE or self.news[source] != NONE:
                continue
            k = self.new_edge(new, self.old.slots[j])
            if k < 0:
                continue
            other = self.new.sources[k]
            if (
                other != NONE
                and self.olds[other] == NONE
                and self.old.outputs[j] == self.new.outputs[k]
                and ours[source] == theirs[other]
            ):
                self.match(source, other)
        return 0

    cdef int spread_to_consumers(
        self, int32_t old, int32_t new, const uint64_t[::1] ours, const uint64_t[::1] theirs
    ) except -1:
        cdef int32_t j, first = self.old.use_starts[old], end = self.old.use_starts[old + 1]
        cdef int32_t other_first = self.new.use_starts[new], other_end = self.new.use_starts[new + 1]
        cdef Py_ssize_t i = 0, count = 0, last, n_pairs = 0
        while first < end and self.news[self.old.users[first]] != NONE:
            first += 1
        if first == end or other_first == other_end:
            return 0
        cdef Entry* entries = <Entry*>malloc((end - first + other_end - other_first) * sizeof(Entry))
        cdef Pair* pairs = <Pair*>malloc((end - first) * sizeof(Pair))
        try:
            if entries == NULL or pairs == NULL:
                raise MemoryError
            # Here the vertex of an entry is the index of an edge.
            for j in range(first, end):
                if self.news[self.old.users[j]] == NONE:
                    entries[count] = Entry(self.old.hash_user(ours, j), 0, j)
                    count += 1
            for j in range(other_first, other_end):
                if self.olds[self.new.users[j]] == NONE:
                    entries[count] = Entry(self.new.hash_user(theirs, j), 1, j)
                    count += 1
            qsort(entries, count, sizeof(Entry), compare_entries)
            while i < count:
                last = end_of_group(entries, i, count)
                if last - i == 2 and entries[i].side == 0 and entries[i + 1].side == 1:
                    pairs[n_pairs] = Pair(
                        entries[i].vertex, self.old.users[entries[i].vertex], self.new.users[entries[i + 1].vertex]
                    )
                    n_pairs += 1
                i = last
            qsort(pairs, n_pairs, sizeof(Pair), compare_pairs)
            for i in range(n_pairs):
                if self.news[pairs[i].old] == NONE and self.olds[pairs[i].new] == NONE:
                    self.match(pairs[i].old, pairs[i].new)
        finally:
            free(entries)
            free(pairs)
        return 0

    cdef bint repair(self) except -1:
        """Replace matches by vertices with which more edges agree; return whether any was replaced."""
        cdef bint changed = False
        cdef int32_t v, current, other, rival
        cdef dict votes
        for v in self.disagreeing():
            if self.votes_left < 0:
                return False
            current = self.news[v]
            votes = self.votes(v)
            if not votes:
                continue
            best = max(votes.values())
            if best <= votes.get(current, 0):
                continue
            for other, count in votes.items():
                if count == best and self.have_one_operator(v, other):
                    rival = self.olds[other]
                    if rival == NONE or self.votes(rival).get(other, 0) < best:
                        if rival != NONE:
                            self.news[rival] = NONE
                            self.n_left[0] += 1
                        if current != NONE:
                            self.olds[current] = NONE
                            self.n_left[1] += 1
                        self.match(v, other)
                        changed = True
                        break
        return changed

    cdef list disagreeing(self):
        """Return the vertices of `old` at either end of an edge that has no counterpart."""
        cdef dict found = {}
        cdef int32_t v, j
        for v in range(self.old.n):
            j = self.first_disagreeing(v, self.old.starts[v])
            while j >= 0:
                found[v] = None
                if self.old.sources[j] != NONE:
                    found[self.old.sources[j]] = None
                j = self.first_disagreeing(v, j + 1)
        return list(found)

    cdef int32_t first_disagreeing(self, int32_t v, int32_t first) noexcept:
        """Return the first edge of a vertex, from an edge on, that has no counterpart; -1 if there is none."""
        cdef int32_t match = self.news[v], j, k, source
        for j in range(first, self.old.starts[v + 1]):
            if match == NONE:
                return j
            k = self.new.starts[match] + j - self.old.starts[v]
            source = self.old.sources[j]
            if (
                k >= self.new.starts[match + 1]
                or self.new.sources[k] != (self.news[source] if source != NONE else NONE)
                or (source != NONE and self.news[source] == NONE)
                or self.new.outputs[k] != self.old.outputs[j]
                or self.new.slots[k] != self.old.slots[j]
            ):
                return j
        return -1

    cdef dict votes(self, int32_t vertex):
        """Count, for each vertex of `new`, the edges of a vertex of `old` that lead to it along matching neighbours.

        A value with very many consumers does not vote, because its votes would be equal for all of them.
        """
        cdef dict votes = {}
        cdef int64_t count = MAX_VOTES
        cdef int32_t j, k, other, end = min(self.old.starts[vertex + 1], self.old.starts[vertex] + MAX_VOTES)
        for j in range(self.old.starts[vertex], end):
            other = self.news[self.old.sources[j]] if self.old.sources[j] != NONE else NONE
            if other == NONE or self.new.use_starts[other + 1] - self.new.use_starts[other] > MAX_VOTES:
                continue
            count += self.new.use_starts[other + 1] - self.new.use_starts[other]
            for k in range(self.new.use_starts[other], self.new.use_starts[other + 1]):
                if self.old.slots[j] == self.new.user_slots[k] and self.old.outputs[j] == self.new.user_outputs[k]:
                    votes[self.new.users[k]] = votes.get(self.new.users[k], 0) + 1
        self.votes_left -= count
        end = min(self.old.use_starts[vertex + 1], self.old.use_starts[vertex] + MAX_VOTES)
        for j in range(self.old.use_starts[vertex], end):
            other = self.news[self.old.users[j]]
            if other != NONE:
                k = self.new_edge(other, self.old.user_slots[j])
                if k >= 0 and self.new.sources[k] != NONE and self.old.user_outputs[j] == self.new.outputs[k]:
                    votes[self.new.sources[k]] = votes.get(self.new.sources[k], 0) + 1
        return votes

    cdef int32_t new_edge(self, int32_t vertex, int32_t slot) except -2:
        """Return the edge of a slot of a vertex of `new`, -1 if there is none."""
        cdef int32_t j, first = self.new.starts[vertex], n = self.new.starts[vertex + 1] - first
        cdef dict known
        if slot >= 0:  # inputs come first, in order
            return first + slot if slot < n and self.new.slots[first + slot] == slot else -1
        known = self.nested_sources.get(vertex)
        if known is None:
            known = {self.new.slots[j]: j for j in range(first, first + n) if self.new.slots[j] < 0}
            self.nested_sources[vertex] = known
        return known.get(slot, -1)


cdef inline uint64_t mixed(uint64_t one, uint64_t other) noexcept nogil:
    """Return a hash of two numbers, in this order (splitmix64)."""
    cdef uint64_t value = one * 0x9E3779B97F4A7C15ULL + other + 0x632BE59BD9B4E019ULL
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL
    return value ^ (value >> 31)


cdef int compare_entries(const void* one, const void* other) noexcept nogil:
    cdef const Entry* a = <const Entry*>one
    cdef const Entry* b = <const Entry*>other
    if a.key != b.key:
        return -1 if a.key < b.key else 1
    if a.side != b.side:
        return a.side - b.side
    return -1 if a.vertex < b.vertex else a.vertex > b.vertex


cdef int compare_pairs(const void* one, const void* other) noexcept nogil:
    return -1 if (<const Pair*>one).position < (<const Pair*>other).position else 1


cdef Py_ssize_t end_of_group(const Entry* entries, Py_ssize_t i, Py_ssize_t count) noexcept nogil:
    """Return the end of the entries with the key of entry i."""
    cdef uint64_t key = entries[i].key
    while i < count and entries[i].key == key:
        i += 1
    return i


cdef object numbers(Py_ssize_t n):
    return array("i", [0]) * n


cdef object hashes(Py_ssize_t n):
    return array("Q", [0]) * n


cdef object hashed_labels(FlatGraph graph):
    """Return a hash of the label of each vertex."""
    cdef uint64_t[::1] result = (found := hashes(graph.n))
    cdef int32_t i
    for i in range(graph.n):
        result[i] = mixed(<uint64_t>graph.vertices[i].label, 0)
    return found


cdef object hashed_operators(FlatGraph graph):
    """Return a hash of the operator of each vertex."""
    cdef uint64_t[::1] result = (found := hashes(graph.n))
    cdef int32_t i
    for i in range(graph.n):
        result[i] = mixed(<uint64_t>graph.vertices[i].operator, 0)
    return found


cdef object joined(const uint64_t[::1] ours, const uint64_t[::1] theirs):
    """Return a hash of each pair of hashes."""
    cdef uint64_t[::1] result = (found := hashes(ours.shape[0]))
    cdef Py_ssize_t i
    for i in range(ours.shape[0]):
        result[i] = mixed(ours[i], theirs[i])
    return found


cdef object hash_up(Edges edges, object labels):
    """Return a hash of each vertex and of all its ancestors."""
    cdef uint64_t[::1] result = (found := array("Q", labels))
    cdef int32_t[::1] order = edges.order()
    cdef int32_t i
    for i in range(edges.n):
        result[order[i]] = edges.hash_sources(result, order[i])
    return found


cdef object hash_down(Edges edges, object labels):
    """Return a hash of each vertex and of all its descendants."""
    cdef uint64_t[::1] result = (found := array("Q", labels))
    cdef int32_t[::1] order = edges.order()
    cdef int32_t i
    for i in range(edges.n - 1, -1, -1):
        result[order[i]] = edges.hash_users(result, order[i])
    return found


cdef object hash_side(Edges edges, object labels, str direction):
    """Return a hash of each vertex with all its ancestors ("up"), all its descendants ("down"), or both."""
    if direction == "up":
        return hash_up(edges, labels)
    if direction == "down":
        return hash_down(edges, labels)
    return joined(hash_up(edges, labels), hash_down(edges, labels))


cdef object hash_near(Edges edges, const uint64_t[::1] inner):
    """Return a hash of each vertex, its sources and its consumers. inner: a hash of each vertex."""
    cdef uint64_t[::1] result = (found := hashes(edges.n))
    cdef int32_t v
    for v in range(edges.n):
        result[v] = mixed(edges.hash_sources(inner, v), edges.hash_users(inner, v))
    return found


cdef object hashed_names(FlatGraph graph):
    """Return a hash of the operator and the name of each vertex."""
    cdef uint64_t[::1] result = (found := hashes(graph.n))
    cdef int32_t i
    for i in range(graph.n):
        result[i] = mixed(<uint64_t>graph.vertices[i].operator, <uint64_t>graph.vertices[i].name)
    return found
