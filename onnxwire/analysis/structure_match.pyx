# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Matches the vertices of two flat graphs by structure.

Vertices are matched in these steps: nodes by name, if the caller requests it; by hashes of all their ancestors,
descendants, or both; by hashes of small neighbourhoods, and along edges from vertices that already match; one after
another in groups of equal hashes, if possible with a vertex of the same name; by replacing matches if more edges
support another vertex; and the remaining nodes by operator and name.
"""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport qsort

from onnxwire.analysis.flat_graph cimport INITIALIZER, NODE, NONE, Edge, FlatGraph, Vertex, grow
from onnxwire.engine.memory cimport free, malloc

from array import array

UNMATCHED = NONE

cdef enum:
    MAX_REPAIRS = 10         # maximum number of repair passes
    # Maximum number of edges to a vertex, of edges from it, and of consumers of a source's match that a repair
    # examines.
    MAX_VOTES = 64

cdef tuple ALL_DIRECTIONS = ("both", "up", "down")
cdef tuple NEAR_RADII = (4, 2, 1)  # radii of neighbourhoods, in edges

# The maximum number of edges that all repairs together examine: _MIN_TOTAL_VOTES, or _TOTAL_VOTES_PER_EDGE for each
# edge if that is more. Without a maximum, graphs of many equal vertices would take too long.
_MIN_TOTAL_VOTES = 2_000_000
_TOTAL_VOTES_PER_EDGE = 4

cdef struct Entry:
    uint64_t key             # a hash
    int32_t side             # the graph of the vertex: 0 for `old`, 1 for `new`
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
    """The edges of a graph in two orders: sorted by consumer, and by source."""

    cdef int32_t n  # number of vertices
    cdef int32_t n_edges
    # The edges by consumer: their sources, outputs of the sources, and ports (as in Edge). The edges to vertex v have
    # the indexes starts[v] to starts[v + 1] - 1.
    cdef int32_t[::1] starts, sources, outputs, ports
    # The edges by source, without edges from NONE: their consumers, ports, and outputs of the sources. The edges from
    # vertex v have the indexes use_starts[v] to use_starts[v + 1] - 1.
    cdef int32_t[::1] use_starts, use_consumers, use_ports, use_outputs

    def __cinit__(self, FlatGraph graph not None):
        """Sort the edges of a graph, and free its unsorted edges. Edges of one vertex keep their order.

        Raises ValueError if the edges were freed before.
        """
        cdef int32_t i, j, k, n = graph.n, count = graph.n_edges, n_uses = 0
        cdef const Edge* edge
        if graph.edges == NULL and count:
            raise ValueError("the edges of this graph are already sorted")
        self.n, self.n_edges = n, count
        self.starts, self.use_starts = zero_integers(n + 1), zero_integers(n + 1)
        self.sources, self.outputs, self.ports = zero_integers(count), zero_integers(count), zero_integers(count)
        for i in range(count):
            self.starts[graph.edges[i].consumer + 1] += 1
        for i in range(n):
            self.starts[i + 1] += self.starts[i]
        cdef int32_t[::1] next_positions = array("i", self.starts)
        for i in range(count):
            edge = &graph.edges[i]
            j = next_positions[edge.consumer]
            next_positions[edge.consumer] += 1
            self.sources[j], self.outputs[j], self.ports[j] = edge.source, edge.output, edge.port
        free(graph.edges)
        graph.edges = NULL
        for j in range(count):
            if self.sources[j] != NONE:
                self.use_starts[self.sources[j] + 1] += 1
                n_uses += 1
        self.use_consumers, self.use_ports = zero_integers(n_uses), zero_integers(n_uses)
        self.use_outputs = zero_integers(n_uses)
        for i in range(n):
            self.use_starts[i + 1] += self.use_starts[i]
        next_positions = array("i", self.use_starts)
        for i in range(n):
            for j in range(self.starts[i], self.starts[i + 1]):
                if self.sources[j] != NONE:
                    k = next_positions[self.sources[j]]
                    next_positions[self.sources[j]] += 1
                    self.use_consumers[k], self.use_ports[k] = i, self.ports[j]
                    self.use_outputs[k] = self.outputs[j]

    def __getitem__(self, int32_t vertex):
        """Return the edges to a vertex: tuples of source, output of the source, and port."""
        if not 0 <= vertex < self.n:
            raise IndexError("the graph has no vertex with this index")
        cdef int32_t j
        return [
            (self.sources[j], self.outputs[j], self.ports[j])
            for j in range(self.starts[vertex], self.starts[vertex + 1])
        ]

    cdef int32_t[::1] sort_vertices(self):
        """Return the vertices, sources first; vertices on cycles, and their descendants, are last."""
        cdef int32_t[::1] order = zero_integers(self.n), n_pending = zero_integers(self.n)
        cdef int32_t v, j, count = 0, position = 0
        for v in range(self.n):
            for j in range(self.starts[v], self.starts[v + 1]):
                n_pending[v] += self.sources[j] != NONE
        for v in range(self.n):
            if n_pending[v] == 0:
                order[count] = v
                count += 1
        while position < count:
            v = order[position]
            position += 1
            for j in range(self.use_starts[v], self.use_starts[v + 1]):
                n_pending[self.use_consumers[j]] -= 1
                if n_pending[self.use_consumers[j]] == 0:
                    order[count] = self.use_consumers[j]
                    count += 1
        for v in range(self.n):
            if n_pending[v] > 0:
                order[count] = v
                count += 1
        return order

    cdef uint64_t hash_sources(self, const uint64_t[::1] hashes, int32_t v) noexcept nogil:
        """Return a hash of a vertex and its sources, in order."""
        cdef uint64_t value = hashes[v]
        cdef int32_t j
        for j in range(self.starts[v], self.starts[v + 1]):
            value = mix(value, self.hash_end(hashes, self.sources[j], self.outputs[j], self.ports[j]))
        return value

    cdef uint64_t hash_consumers(self, const uint64_t[::1] hashes, int32_t v) noexcept nogil:
        """Return a hash of a vertex and its consumers, which does not depend on their order."""
        cdef uint64_t total = 0
        cdef int32_t j
        for j in range(self.use_starts[v], self.use_starts[v + 1]):
            total += self.hash_use(hashes, j)
        return mix(hashes[v], total) if total else hashes[v]

    cdef inline uint64_t hash_use(self, const uint64_t[::1] hashes, int32_t j) noexcept nogil:
        """Return a hash of edge j to a consumer, where j is a position in `use_consumers`."""
        return self.hash_end(hashes, self.use_consumers[j], self.use_outputs[j], self.use_ports[j])

    cdef inline uint64_t hash_end(
        self, const uint64_t[::1] hashes, int32_t vertex, int32_t output, int32_t port
    ) noexcept nogil:
        """Return a hash of one end of an edge: the hash of its vertex (1 for NONE), the output, and the port."""
        cdef uint64_t end_number = (<uint64_t>output << 32) ^ (<uint64_t>port & 0xFFFFFFFFULL)
        return mix(hashes[vertex] if vertex != NONE else 1, end_number)


@cython.final
cdef class Matching:
    """The matching vertices of two graphs: for each vertex, the index of its match in the other graph, or UNMATCHED."""

    cdef readonly object new_of, old_of      # array("i"): the match of each vertex of `old`, of `new`
    cdef int32_t[::1] new_indexes, old_indexes  # views of these arrays
    cdef readonly tuple edges                # the edges of both graphs
    cdef Edges old, new
    cdef FlatGraph old_graph, new_graph
    cdef Match* stack                        # matches whose neighbours may match, too
    cdef int32_t n_stack, stack_capacity
    cdef dict nested_edges                   # by vertex of `new`: the edges from nested graphs by port
    cdef int32_t[2] n_unmatched              # numbers of unmatched vertices of `old` and of `new`
    cdef int64_t remaining_votes             # number of edges that all further repairs may examine

    def __cinit__(self, FlatGraph old not None, FlatGraph new not None, *, bint by_name):
        """Match the vertices.

        by_name: first match nodes by name and operator, if each model has only one node with both.
        """
        self.old_graph, self.new_graph = old, new
        self.old, self.new = Edges(old), Edges(new)
        self.edges = self.old, self.new
        self.new_indexes = self.new_of = array("i", [NONE]) * self.old.n
        self.old_indexes = self.old_of = array("i", [NONE]) * self.new.n
        self.nested_edges = {}
        self.n_unmatched[0], self.n_unmatched[1] = self.old.n, self.new.n
        self.remaining_votes = max(_MIN_TOTAL_VOTES, _TOTAL_VOTES_PER_EDGE * (self.old.n_edges + self.new.n_edges))
        cdef tuple labels = (hash_labels(old), hash_labels(new))
        cdef tuple operators, near_hashes
        cdef int radius
        if by_name:
            self.match_unique(hash_names(old), hash_names(new), NODE)
        for direction in ALL_DIRECTIONS:
            self.match_unique(*self.hash_all(labels, direction))
        if self.n_unmatched[0] and self.n_unmatched[1]:
            # Hashes are computed again in each step; the hashes of all steps together would take too much memory.
            for radius in NEAR_RADII:
                near_hashes = self.hash_neighbourhoods(labels, radius)
                self.spread(near_hashes[0], near_hashes[1])
            near_hashes = None
            self.spread(labels[0], labels[1])
            for radius in NEAR_RADII:
                self.match_unique(*self.hash_neighbourhoods(labels, radius))
                self.spread(labels[0], labels[1])
            for direction in ALL_DIRECTIONS:
                self.match_groups(self.hash_all(labels, direction), labels)
            for radius in NEAR_RADII:
                self.match_groups(self.hash_neighbourhoods(labels, radius), labels)
        operators = (hash_operators(old), hash_operators(new))
        self.spread(operators[0], operators[1])
        self.match_groups(labels, labels)
        self.spread(operators[0], operators[1])
        for _ in range(MAX_REPAIRS):
            if not self.repair():
                break
            self.spread(operators[0], operators[1])
        if self.n_unmatched[0] and self.n_unmatched[1]:
            self.match_groups((hash_names(old), hash_names(new)), operators, NODE)

    cdef tuple hash_all(self, tuple labels, str direction):
        """Return hashes of each vertex with all its ancestors ("up"), all its descendants ("down"), or both."""
        return hash_reachable(self.old, labels[0], direction), hash_reachable(self.new, labels[1], direction)

    cdef tuple hash_neighbourhoods(self, tuple labels, int radius):
        """Return hashes of each vertex with the vertices that are at most `radius` edges away."""
        cdef tuple near_hashes = labels
        for _ in range(radius):
            near_hashes = (hash_near(self.old, near_hashes[0]), hash_near(self.new, near_hashes[1]))
        return near_hashes

    def __dealloc__(self):
        free(self.stack)

    def rewired_vertices(self):
        """Return the matched vertices of `old` whose incoming edges differ from those of their matches."""
        cdef int32_t v, match
        return [
            v for v, match in enumerate(self.new_of)
            if match != NONE and (
                self.new.starts[match + 1] - self.new.starts[match] != self.old.starts[v + 1] - self.old.starts[v]
                or self.first_unmatched_edge(v, self.old.starts[v]) >= 0
            )
        ]

    def new_names(self):
        """Return the names of matching nodes and values that changed: dicts from old to new names.

        The keys of the result are "nodes" and "values".
        """
        cdef FlatGraph old = self.old_graph, new = self.new_graph
        cdef dict nodes = {}, values = {}
        cdef int32_t v, match, i, k
        for v in range(old.n):
            match = self.new_indexes[v]
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

    def unequal_vertices(self, bint by_labels):
        """Return the vertices of `old` that have no match, or whose messages may differ in more than names and edges.

        by_labels: whether vertices with equal labels have equal attributes and payloads.
        """
        cdef FlatGraph old = self.old_graph, new = self.new_graph
        cdef const Vertex* old_vertex
        cdef const Vertex* new_vertex
        cdef int32_t v, count = 0
        cdef int32_t[::1] view = (vertices := zero_integers(old.n))
        for v in range(old.n):
            if self.new_indexes[v] != NONE:
                old_vertex, new_vertex = &old.vertices[v], &new.vertices[self.new_indexes[v]]
                if (
                    by_labels and old_vertex.label == new_vertex.label
                    and (old_vertex.kind == NODE or old_vertex.kind == INITIALIZER)
                    and not old_vertex.has_notes and not new_vertex.has_notes
                ):
                    continue
            view[count] = v
            count += 1
        return vertices[:count]

    def has_equal_label(self, int32_t vertex):
        """Return whether a vertex of `old` has the label of its match. Raises IndexError if it has no match."""
        if not 0 <= vertex < self.old.n or self.new_indexes[vertex] == NONE:
            raise IndexError("the vertex is not matched")
        return self.old_graph.vertices[vertex].label == self.new_graph.vertices[self.new_indexes[vertex]].label

    cdef bint have_equal_operators(self, int32_t old, int32_t new) noexcept:
        return self.old_graph.vertices[old].operator == self.new_graph.vertices[new].operator

    cdef int match(self, int32_t old, int32_t new) except -1:
        """Match two vertices, and push the match, so that its neighbours are matched later."""
        self.n_unmatched[0] -= self.new_indexes[old] == NONE
        self.n_unmatched[1] -= self.old_indexes[new] == NONE
        self.new_indexes[old] = new
        self.old_indexes[new] = old
        return self.push(old, new)

    cdef int push(self, int32_t old, int32_t new) except -1:
        """Push a match onto the stack."""
        if self.n_stack == self.stack_capacity:
            self.stack_capacity = grow(<void**>&self.stack, self.stack_capacity, sizeof(Match))
        self.stack[self.n_stack] = Match(old, new)
        self.n_stack += 1
        return 0

    cdef Py_ssize_t allocate_unmatched(
        self, Entry** entries, const uint64_t[::1] old_hashes, const uint64_t[::1] new_hashes, int kind
    ) except -1:
        """Allocate an array of the unmatched vertices of both models, sorted by hash; return its length.

        kind: the kind of the vertices, -1 for all. The caller frees the array. It is NULL if all vertices of one model
        are matched.
        """
        cdef Py_ssize_t count = 0
        cdef int32_t v
        entries[0] = NULL
        if self.n_unmatched[0] == 0 or self.n_unmatched[1] == 0:
            return 0
        cdef Entry* buffer = <Entry*>malloc((self.n_unmatched[0] + self.n_unmatched[1]) * sizeof(Entry))
        if buffer == NULL:
            raise MemoryError
        for v in range(self.old.n):
            if self.new_indexes[v] == NONE and (kind < 0 or self.old_graph.vertices[v].kind == kind):
                buffer[count] = Entry(old_hashes[v], 0, v)
                count += 1
        for v in range(self.new.n):
            if self.old_indexes[v] == NONE and (kind < 0 or self.new_graph.vertices[v].kind == kind):
                buffer[count] = Entry(new_hashes[v], 1, v)
                count += 1
        qsort(buffer, count, sizeof(Entry), compare_entries)
        entries[0] = buffer
        return count

    def match_unique(self, const uint64_t[::1] old_hashes, const uint64_t[::1] new_hashes, int kind=-1):
        """Match vertices of equal hashes that are unique among the unmatched vertices of each model.

        kind: as for `allocate_unmatched`.
        """
        cdef Entry* entries
        cdef Py_ssize_t i = 0, end, count = self.allocate_unmatched(&entries, old_hashes, new_hashes, kind)
        try:
            while i < count:
                end = end_of_group(entries, i, count)
                if end - i == 2 and entries[i].side == 0 and entries[i + 1].side == 1:
                    self.match(entries[i].vertex, entries[i + 1].vertex)
                i = end
        finally:
            free(entries)

    cdef int match_groups(self, tuple group_hashes, tuple spread_hashes, int kind=-1) except -1:
        """Match vertices of equal hashes one after another; spread each match before choosing the next match.

        group_hashes: the hashes of both models that define the groups. spread_hashes: those for `spread`. kind: as for
        `allocate_unmatched`.
        """
        cdef Entry* entries
        cdef Py_ssize_t i = 0, end, middle
        cdef Py_ssize_t count = self.allocate_unmatched(&entries, group_hashes[0], group_hashes[1], kind)
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
                self.match_group(&entries[i], middle - i, &entries[middle], end - middle, spread_hashes)
        finally:
            free(entries)
        return 0

    cdef int match_group(
        self, const Entry* old_entries, Py_ssize_t n_old, const Entry* new_entries, Py_ssize_t n_new,
        tuple spread_hashes
    ) except -1:
        """Match each unmatched old vertex of a group with the new vertex of its name, else with the next unmatched."""
        cdef Py_ssize_t i, i_new = 0
        cdef int32_t old, new
        cdef const Vertex* old_vertices = self.old_graph.vertices
        cdef const Vertex* new_vertices = self.new_graph.vertices
        cdef dict new_by_name = {}
        cdef const uint64_t[::1] old_hashes = spread_hashes[0], new_hashes = spread_hashes[1]
        for i in range(n_new):
            new_by_name.setdefault(new_vertices[new_entries[i].vertex].name, new_entries[i].vertex)
        for i in range(n_old):
            old = old_entries[i].vertex
            if self.new_indexes[old] != NONE:
                continue
            new = new_by_name.get(old_vertices[old].name, NONE)
            if new == NONE or self.old_indexes[new] != NONE:
                while i_new < n_new and self.old_indexes[new_entries[i_new].vertex] != NONE:
                    i_new += 1
                if i_new == n_new:
                    break
                new = new_entries[i_new].vertex
            self.match(old, new)
            self.spread_stack(old_hashes, new_hashes)
        return 0

    cdef int spread(self, const uint64_t[::1] old_hashes, const uint64_t[::1] new_hashes) except -1:
        """Match neighbours with equal hashes at the same port of matching vertices, until none remains.

        Starts from all matches with unmatched neighbours.
        """
        cdef int32_t v, j
        cdef bytearray is_pushed
        self.n_stack = 0
        if self.n_unmatched[0] == 0 or self.n_unmatched[1] == 0:
            return 0
        is_pushed = bytearray(self.old.n)
        for v in range(self.old.n):
            if self.new_indexes[v] != NONE:
                continue
            for j in range(self.old.starts[v], self.old.starts[v + 1]):
                if self.old.sources[j] != NONE:
                    self.push_once(self.old.sources[j], is_pushed)
            for j in range(self.old.use_starts[v], self.old.use_starts[v + 1]):
                self.push_once(self.old.use_consumers[j], is_pushed)
        return self.spread_stack(old_hashes, new_hashes)

    cdef int push_once(self, int32_t old, bytearray is_pushed) except -1:
        """Push the match of a vertex, unless the vertex has no match or was pushed before."""
        if self.new_indexes[old] == NONE or is_pushed[old]:
            return 0
        is_pushed[old] = True
        return self.push(old, self.new_indexes[old])

    cdef int spread_stack(self, const uint64_t[::1] old_hashes, const uint64_t[::1] new_hashes) except -1:
        """Match the neighbours of the matches on the stack, until it is empty."""
        cdef Match latest_match
        while self.n_stack:
            self.n_stack -= 1
            latest_match = self.stack[self.n_stack]
            self.spread_to_sources(latest_match.old, latest_match.new, old_hashes, new_hashes)
            self.spread_to_consumers(latest_match.old, latest_match.new, old_hashes, new_hashes)
        return 0

    cdef int spread_to_sources(
        self, int32_t old, int32_t new, const uint64_t[::1] old_hashes, const uint64_t[::1] new_hashes
    ) except -1:
        """Match the unmatched sources of two matching vertices by port, output and hash."""
        cdef int32_t j, k, old_source, new_source
        for j in range(self.old.starts[old], self.old.starts[old + 1]):
            old_source = self.old.sources[j]
            if old_source == NONE or self.new_indexes[old_source] != NONE:
                continue
            k = self.find_new_edge(new, self.old.ports[j])
            if k < 0:
                continue
            new_source = self.new.sources[k]
            if (
                new_source != NONE
                and self.old_indexes[new_source] == NONE
                and self.old.outputs[j] == self.new.outputs[k]
                and old_hashes[old_source] == new_hashes[new_source]
            ):
                self.match(old_source, new_source)
        return 0

    cdef int spread_to_consumers(
        self, int32_t old, int32_t new, const uint64_t[::1] old_hashes, const uint64_t[::1] new_hashes
    ) except -1:
        """Match the unmatched consumers of two matching vertices whose edges have equal, unique hashes."""
        cdef int32_t j, old_start = self.old.use_starts[old], old_end = self.old.use_starts[old + 1]
        cdef int32_t new_start = self.new.use_starts[new], new_end = self.new.use_starts[new + 1]
        cdef Py_ssize_t i = 0, count = 0, group_end, n_pairs = 0
        while old_start < old_end and self.new_indexes[self.old.use_consumers[old_start]] != NONE:
            old_start += 1
        if old_start == old_end or new_start == new_end:
            return 0
        cdef Entry* entries = <Entry*>malloc((old_end - old_start + new_end - new_start) * sizeof(Entry))
        cdef Pair* pairs = <Pair*>malloc((old_end - old_start) * sizeof(Pair))
        try:
            if entries == NULL or pairs == NULL:
                raise MemoryError
            # `vertex` of these entries is the index of an edge.
            for j in range(old_start, old_end):
                if self.new_indexes[self.old.use_consumers[j]] == NONE:
                    entries[count] = Entry(self.old.hash_use(old_hashes, j), 0, j)
                    count += 1
            for j in range(new_start, new_end):
                if self.old_indexes[self.new.use_consumers[j]] == NONE:
                    entries[count] = Entry(self.new.hash_use(new_hashes, j), 1, j)
                    count += 1
            qsort(entries, count, sizeof(Entry), compare_entries)
            while i < count:
                group_end = end_of_group(entries, i, count)
                if group_end - i == 2 and entries[i].side == 0 and entries[i + 1].side == 1:
                    pairs[n_pairs] = Pair(
                        entries[i].vertex,
                        self.old.use_consumers[entries[i].vertex],
                        self.new.use_consumers[entries[i + 1].vertex],
                    )
                    n_pairs += 1
                i = group_end
            qsort(pairs, n_pairs, sizeof(Pair), compare_pairs)
            for i in range(n_pairs):
                if self.new_indexes[pairs[i].old] == NONE and self.old_indexes[pairs[i].new] == NONE:
                    self.match(pairs[i].old, pairs[i].new)
        finally:
            free(entries)
            free(pairs)
        return 0

    cdef bint repair(self) except -1:
        """Replace the match of each vertex if more edges support another vertex of the same operator (`count_votes`).

        A match of the other vertex that at least as many edges support is not replaced. Returns whether any match
        changed; False if `remaining_votes` is used up before the last vertex.
        """
        cdef bint has_changed = False
        cdef int32_t v, current_match, candidate
        cdef int32_t rival       # the vertex of `old` that the candidate matches
        cdef dict votes
        for v in self.vertices_to_repair():
            if self.remaining_votes < 0:
                return False
            current_match = self.new_indexes[v]
            votes = self.count_votes(v)
            if not votes:
                continue
            max_count = max(votes.values())
            if max_count <= votes.get(current_match, 0):
                continue
            for candidate, count in votes.items():
                if count == max_count and self.have_equal_operators(v, candidate):
                    rival = self.old_indexes[candidate]
                    if rival == NONE or self.count_votes(rival).get(candidate, 0) < max_count:
                        if rival != NONE:
                            self.new_indexes[rival] = NONE
                            self.n_unmatched[0] += 1
                        if current_match != NONE:
                            self.old_indexes[current_match] = NONE
                            self.n_unmatched[1] += 1
                        self.match(v, candidate)
                        has_changed = True
                        break
        return has_changed

    cdef list vertices_to_repair(self):
        """Return the vertices of `old` at either end of an edge that has no counterpart."""
        cdef dict vertices = {}
        cdef int32_t v, j
        for v in range(self.old.n):
            j = self.first_unmatched_edge(v, self.old.starts[v])
            while j >= 0:
                vertices[v] = None
                if self.old.sources[j] != NONE:
                    vertices[self.old.sources[j]] = None
                j = self.first_unmatched_edge(v, j + 1)
        return list(vertices)

    cdef int32_t first_unmatched_edge(self, int32_t v, int32_t first) noexcept:
        """Return the first edge to a vertex, from edge `first` on, that has no counterpart; -1 if there is none."""
        cdef int32_t match = self.new_indexes[v], j, k, source
        for j in range(first, self.old.starts[v + 1]):
            if match == NONE:
                return j
            k = self.new.starts[match] + j - self.old.starts[v]
            source = self.old.sources[j]
            if (
                k >= self.new.starts[match + 1]
                or self.new.sources[k] != (self.new_indexes[source] if source != NONE else NONE)
                or (source != NONE and self.new_indexes[source] == NONE)
                or self.new.outputs[k] != self.old.outputs[j]
                or self.new.ports[k] != self.old.ports[j]
            ):
                return j
        return -1

    cdef dict count_votes(self, int32_t vertex):
        """Count, for each vertex of `new`, the edges that support it as the match of a vertex of `old`.

        An edge between the old vertex and a neighbour supports each vertex of `new` that has an edge with the same port
        and output to or from the match of the neighbour.
        A source whose match has more than MAX_VOTES consumers is skipped, because it would count equally for all of
        them.
        """
        cdef dict votes = {}
        cdef int64_t count = MAX_VOTES  # an estimate of the number of examined edges
        cdef int32_t j, k, neighbour, end = min(self.old.starts[vertex + 1], self.old.starts[vertex] + MAX_VOTES)
        for j in range(self.old.starts[vertex], end):
            neighbour = self.new_indexes[self.old.sources[j]] if self.old.sources[j] != NONE else NONE
            if neighbour == NONE or self.new.use_starts[neighbour + 1] - self.new.use_starts[neighbour] > MAX_VOTES:
                continue
            count += self.new.use_starts[neighbour + 1] - self.new.use_starts[neighbour]
            for k in range(self.new.use_starts[neighbour], self.new.use_starts[neighbour + 1]):
                if self.old.ports[j] == self.new.use_ports[k] and self.old.outputs[j] == self.new.use_outputs[k]:
                    votes[self.new.use_consumers[k]] = votes.get(self.new.use_consumers[k], 0) + 1
        self.remaining_votes -= count
        end = min(self.old.use_starts[vertex + 1], self.old.use_starts[vertex] + MAX_VOTES)
        for j in range(self.old.use_starts[vertex], end):
            neighbour = self.new_indexes[self.old.use_consumers[j]]
            if neighbour != NONE:
                k = self.find_new_edge(neighbour, self.old.use_ports[j])
                if k >= 0 and self.new.sources[k] != NONE and self.old.use_outputs[j] == self.new.outputs[k]:
                    votes[self.new.sources[k]] = votes.get(self.new.sources[k], 0) + 1
        return votes

    cdef int32_t find_new_edge(self, int32_t vertex, int32_t port) except -2:
        """Return the edge at a port of a vertex of `new`; -1 if the vertex has no edge at this port."""
        cdef int32_t j, first = self.new.starts[vertex], n = self.new.starts[vertex + 1] - first
        cdef dict edges_by_port
        if port >= 0:  # the edges of inputs are first, in order of their ports
            return first + port if port < n and self.new.ports[first + port] == port else -1
        edges_by_port = self.nested_edges.get(vertex)
        if edges_by_port is None:
            edges_by_port = {self.new.ports[j]: j for j in range(first, first + n) if self.new.ports[j] < 0}
            self.nested_edges[vertex] = edges_by_port
        return edges_by_port.get(port, -1)


cdef inline uint64_t mix(uint64_t first, uint64_t second) noexcept nogil:
    """Return a hash of two numbers, in this order (splitmix64)."""
    cdef uint64_t value = first * 0x9E3779B97F4A7C15ULL + second + 0x632BE59BD9B4E019ULL
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL
    return value ^ (value >> 31)


cdef int compare_entries(const void* left, const void* right) noexcept nogil:
    """Order entries by key, side and vertex."""
    cdef const Entry* a = <const Entry*>left
    cdef const Entry* b = <const Entry*>right
    if a.key != b.key:
        return -1 if a.key < b.key else 1
    if a.side != b.side:
        return a.side - b.side
    return -1 if a.vertex < b.vertex else a.vertex > b.vertex


cdef int compare_pairs(const void* left, const void* right) noexcept nogil:
    return -1 if (<const Pair*>left).position < (<const Pair*>right).position else 1


cdef Py_ssize_t end_of_group(const Entry* entries, Py_ssize_t i, Py_ssize_t count) noexcept nogil:
    """Return the end of the run of entries with the key of entry i."""
    cdef uint64_t key = entries[i].key
    while i < count and entries[i].key == key:
        i += 1
    return i


cdef object zero_integers(Py_ssize_t n):
    return array("i", [0]) * n


cdef object zero_hashes(Py_ssize_t n):
    return array("Q", [0]) * n


cdef object hash_labels(FlatGraph graph):
    """Return a hash of the label of each vertex."""
    cdef uint64_t[::1] view = (hashes := zero_hashes(graph.n))
    cdef int32_t i
    for i in range(graph.n):
        view[i] = mix(<uint64_t>graph.vertices[i].label, 0)
    return hashes


cdef object hash_operators(FlatGraph graph):
    """Return a hash of the operator of each vertex."""
    cdef uint64_t[::1] view = (hashes := zero_hashes(graph.n))
    cdef int32_t i
    for i in range(graph.n):
        view[i] = mix(<uint64_t>graph.vertices[i].operator, 0)
    return hashes


cdef object hash_pairs(const uint64_t[::1] first_hashes, const uint64_t[::1] second_hashes):
    """Return a hash of each pair of hashes with the same index."""
    cdef uint64_t[::1] view = (hashes := zero_hashes(first_hashes.shape[0]))
    cdef Py_ssize_t i
    for i in range(first_hashes.shape[0]):
        view[i] = mix(first_hashes[i], second_hashes[i])
    return hashes


cdef object hash_up(Edges edges, object labels):
    """Return a hash of each vertex and of all its ancestors."""
    cdef uint64_t[::1] view = (hashes := array("Q", labels))
    cdef int32_t[::1] order = edges.sort_vertices()
    cdef int32_t i
    for i in range(edges.n):
        view[order[i]] = edges.hash_sources(view, order[i])
    return hashes


cdef object hash_down(Edges edges, object labels):
    """Return a hash of each vertex and of all its descendants."""
    cdef uint64_t[::1] view = (hashes := array("Q", labels))
    cdef int32_t[::1] order = edges.sort_vertices()
    cdef int32_t i
    for i in range(edges.n - 1, -1, -1):
        view[order[i]] = edges.hash_consumers(view, order[i])
    return hashes


cdef object hash_reachable(Edges edges, object labels, str direction):
    """Return a hash of each vertex with all its ancestors ("up"), all its descendants ("down"), or both."""
    if direction == "up":
        return hash_up(edges, labels)
    if direction == "down":
        return hash_down(edges, labels)
    return hash_pairs(hash_up(edges, labels), hash_down(edges, labels))


cdef object hash_near(Edges edges, const uint64_t[::1] vertex_hashes):
    """Return a hash of each vertex, its sources and its consumers. vertex_hashes: a hash of each vertex."""
    cdef uint64_t[::1] view = (hashes := zero_hashes(edges.n))
    cdef int32_t v
    for v in range(edges.n):
        view[v] = mix(edges.hash_sources(vertex_hashes, v), edges.hash_consumers(vertex_hashes, v))
    return hashes


cdef object hash_names(FlatGraph graph):
    """Return a hash of the operator and the name of each vertex."""
    cdef uint64_t[::1] view = (hashes := zero_hashes(graph.n))
    cdef int32_t i
    for i in range(graph.n):
        view[i] = mix(<uint64_t>graph.vertices[i].operator, <uint64_t>graph.vertices[i].name)
    return hashes
