/* Attacks on onnxwire.h: read functions that fail or use the source, sizes near the limits of integers, truncated data,
   wrong arguments and ignored errors. Exits with 1 or aborts at the first attack that succeeds. */
#include "events.c"

#define EXPECT(condition)                                                              \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

/* A model with ir_version 8 and the graph gg of two nodes. The node Add has the input x and the attribute t with a tensor:
   dims 2 and 3, data_type FLOAT. The node Sub has only an op_type. */
static const unsigned char model_bytes[] =
    "\x08\x08\x3a\x22"
    "\x0a\x15\x0a\x01x\x22\x03" "Add\x2a\x0b\x0a\x01t\x2a\x06\x08\x02\x08\x03\x10\x01"
    "\x0a\x05\x22\x03" "Sub"
    "\x12\x02gg";
enum { MODEL_SIZE = sizeof model_bytes - 1 };

/* Reads all values in one pass, then again with ow_scan, and also tensors and paths. Returns the number of values of both
   reads together. */
static size_t read_everything(ow_source *source, int table);

/* Reads a message with ow_scan and returns the number of its values, including those of nested messages. */
static size_t visit_scanned(const ow_message *message) {
    ow_slot slots[OW_MAX_FIELDS];
    ow_elements elements;
    ow_message child;
    ow_tensor tensor;
    int64_t dims[2];
    char path[40];
    size_t n = 0;
    int row;
    ow_path(message, path, sizeof path);
    if (message->table == &ow_tables[OW_TensorProto]) ow_read_tensor(message, &tensor, dims, 2);
    if (ow_scan(message, slots) != OW_OK) return 0;
    for (row = 0; row < message->table->n_fields; row++) {
        const ow_field *field = &message->table->fields[row];
        if (slots[row].records == 0) continue;
        if (!field->is_repeated) {
            n++;
            if (field->type == OW_MESSAGE && ow_child(message, row, slots, &child) == OW_OK) n += visit_scanned(&child);
            continue;
        }
        ow_elements_of(message, row, slots, &elements);
        while (ow_next(&elements)) {
            n++;
            if (field->type == OW_MESSAGE && ow_element_message(&elements, &child) == OW_OK) n += visit_scanned(&child);
        }
    }
    return n;
}

/* Reads all values in one pass and returns their number. */
static size_t visit_fields(ow_fields fields) {
    ow_fields child;
    size_t n = 0;
    while (ow_next_field(&fields)) {
        n++;
        if (ow_field_of(&fields)->type == OW_MESSAGE && ow_enter(&fields, &child) == OW_OK) n += visit_fields(child);
    }
    return n;
}

static size_t read_everything(ow_source *source, int table) {
    ow_fields fields;
    ow_message root;
    size_t n;
    ow_root_fields(&fields, source, table);
    n = visit_fields(fields);
    ow_root(&root, source, table);
    return n + visit_scanned(&root);
}

/* --- read functions that fail */

typedef struct failing_memory {
    memory from;
    int n_until_failure, n_failures; /* numbers of calls */
} failing_memory;

/* Reads memory `n_until_failure` times, and then fails. */
static int read_or_fail(void *context, uint64_t offset, void *buffer, size_t size) {
    failing_memory *state = (failing_memory *)context;
    if (state->n_until_failure-- <= 0) {
        state->n_failures++;
        memset(buffer, 0xFF, size); /* a read function may write to the whole buffer before it fails */
        return -1;
    }
    return read_memory(&state->from, offset, buffer, size);
}

static void failing_reads_end_all_loops(void) {
    unsigned char buffer[64];
    failing_memory state = {{model_bytes, MODEL_SIZE, 0}, 0, 0};
    ow_source source;
    char path[40];
    size_t n_expected, n = 0;
    int n_until_failure;
    ow_open_bytes(&source, model_bytes, MODEL_SIZE);
    n_expected = read_everything(&source, OW_ModelProto);
    EXPECT(source.error.code == OW_OK && n_expected == 28); /* 14 values, each read in both ways */
    for (n_until_failure = 0; n < n_expected; n_until_failure++) {
        EXPECT(n_until_failure < 1000);
        state.n_until_failure = n_until_failure;
        state.n_failures = 0;
        EXPECT(ow_open(&source, read_or_fail, &state, MODEL_SIZE, buffer, sizeof buffer) == OW_OK);
        n = read_everything(&source, OW_ModelProto);
        EXPECT(state.n_failures == (n < n_expected)); /* no call after the first failure */
        EXPECT(source.error.code == (n < n_expected ? OW_ERROR_READ : OW_OK));
        if (n == n_expected) break;
        EXPECT(ow_read(&source, 0, path, 1) == OW_ERROR_READ);
        EXPECT(state.n_failures == 1);
        EXPECT(ow_path_at(&source, OW_ModelProto, source.error.offset, path, sizeof path) == 0);
        EXPECT(source.error.code == OW_ERROR_READ);
    }
}

/* --- read functions that use the source */

/* action: 0 calls ow_read, 1 reads everything, 2 calls ow_path_at. */
typedef struct reentering_memory {
    memory from;
    ow_source *source;
    int n_calls, action;
} reentering_memory;

static int read_and_reenter(void *context, uint64_t offset, void *buffer, size_t size) {
    reentering_memory *state = (reentering_memory *)context;
    char bytes[8];
    if (++state->n_calls > 100) abort();
    if (state->action == 0) ow_read(state->source, MODEL_SIZE - 8, bytes, 8);
    if (state->action == 1) read_everything(state->source, OW_ModelProto);
    if (state->action == 2) ow_path_at(state->source, OW_ModelProto, 20, bytes, 8);
    return read_memory(&state->from, offset, buffer, size);
}

static void reentrant_reads_are_rejected(void) {
    unsigned char buffer[64];
    reentering_memory state = {{model_bytes, MODEL_SIZE, 0}, NULL, 0, 0};
    ow_source source;
    state.source = &source;
    for (state.action = 0; state.action < 3; state.action++) {
        size_t n;
        state.n_calls = 0;
        ow_open(&source, read_and_reenter, &state, MODEL_SIZE, buffer, sizeof buffer);
        n = read_everything(&source, OW_ModelProto);
        /* The error of ow_path_at is not stored in the source. */
        if (state.action < 2) EXPECT(source.error.code == OW_ERROR_READ && n == 0 && state.n_calls == 1);
    }
}

/* --- sizes near the limits of integers */

/* Bytes at the start and at the end of a source of any size; all others are zero. */
typedef struct huge_memory {
    const unsigned char *head, *tail;
    size_t head_size, tail_size;
    uint64_t size, n_read;
} huge_memory;

static int read_huge(void *context, uint64_t offset, void *buffer, size_t size) {
    huge_memory *state = (huge_memory *)context;
    size_t i;
    EXPECT(offset <= state->size && size <= state->size - offset);
    for (i = 0; i < size; i++, offset++) {
        unsigned char byte = 0;
        if (offset < state->head_size) byte = state->head[offset];
        if (state->size - offset <= state->tail_size) byte = state->tail[state->tail_size - (state->size - offset)];
        ((unsigned char *)buffer)[i] = byte;
    }
    state->n_read += size;
    return 0;
}

/* Writes a varint and returns its length. */
static size_t put_varint(unsigned char *to, uint64_t value) {
    size_t n = 0;
    for (; value >= 0x80; value >>= 7) to[n++] = (unsigned char)(value | 0x80);
    to[n++] = (unsigned char)value;
    return n;
}

/* Writes a length. The length and the bytes that it counts take `n_available` bytes together. */
static size_t put_length(unsigned char *to, uint64_t n_available) {
    size_t n = 1;
    while (put_varint(to, n_available - n) != n) n++;
    return n;
}

static void values_at_huge_offsets_are_read(void) {
    static const uint64_t sizes[] = {UINT64_C(5) << 30, INT64_MAX - 1, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX - 1,
                                     UINT64_MAX, (uint64_t)UINT32_MAX - 1, UINT32_MAX, (uint64_t)UINT32_MAX + 1};
    static const unsigned char tail[] = "\x12\x02gg\x0a\x05\x22\x03Sub"; /* in the graph, after a huge doc_string */
    size_t i;
    for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char head[40], buffer[64];
        huge_memory state;
        ow_source source;
        ow_message model, graph, node;
        ow_slot slots[OW_MAX_FIELDS];
        ow_elements nodes;
        char name[3];
        const uint64_t size = sizes[i];
        size_t n = 0;
        state.tail = tail;
        state.tail_size = sizeof tail - 1;
        head[n++] = 0x3A; /* graph */
        n += put_length(head + n, size - n);
        head[n++] = 0x52; /* doc_string */
        n += put_length(head + n, size - n - state.tail_size);
        state.head = head;
        state.head_size = n;
        state.size = size;
        state.n_read = 0;
        ow_open(&source, read_huge, &state, size, buffer, sizeof buffer);
        ow_root(&model, &source, OW_ModelProto);
        EXPECT(ow_scan(&model, slots) == OW_OK && slots[OW_ModelProto_graph].records == 1);
        EXPECT(ow_child(&model, OW_ModelProto_graph, slots, &graph) == OW_OK && ow_scan(&graph, slots) == OW_OK);
        EXPECT(slots[OW_GraphProto_name].span.end - slots[OW_GraphProto_name].span.start == 2);
        ow_elements_of(&graph, OW_GraphProto_node, slots, &nodes);
        EXPECT(ow_next(&nodes) == 1 && ow_element_message(&nodes, &node) == OW_OK && node.span.end == size);
        EXPECT(ow_scan(&node, slots) == OW_OK);
        EXPECT(ow_read(&source, slots[OW_NodeProto_op_type].span.start, name, 3) == OW_OK && memcmp(name, "Sub", 3) == 0);
        EXPECT(ow_next(&nodes) == 0 && source.error.code == OW_OK);
        /* graph, doc_string, name, node and op_type, each read in both ways */
        EXPECT(read_everything(&source, OW_ModelProto) == 10 && source.error.code == OW_OK);
        EXPECT(state.n_read < 4096);
        EXPECT(ow_read(&source, size, name, 1) == OW_ERROR_ARGUMENT);
        ow_open(&source, read_huge, &state, size, buffer, sizeof buffer);
        EXPECT(ow_read(&source, size - 1, name, SIZE_MAX) == OW_ERROR_ARGUMENT);
        ow_open(&source, read_huge, &state, size, buffer, sizeof buffer);
        EXPECT(ow_read(&source, UINT64_MAX, name, 2) == OW_ERROR_ARGUMENT);
    }
}

/* The sum of an offset and a length must not overflow. */
static void lengths_past_the_end_are_rejected(void) {
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 10, UINT64_MAX - 11, (uint64_t)INT64_MAX + 1,
                                       INT64_MAX, UINT32_MAX, (uint64_t)UINT32_MAX + 1, (uint64_t)1 << 35, 1000, 128, 20};
    static const unsigned char tags[] = {0x3A, 0x12, 0x42}; /* graph, producer_name, opset_import */
    size_t i, j, padding;
    for (i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (j = 0; j < sizeof tags; j++) {
            for (padding = 0; padding < 4; padding++) {
                unsigned char bytes[20], buffer[64];
                memory from;
                ow_source source;
                size_t n = 0;
                bytes[n++] = tags[j];
                n += put_varint(bytes + n, lengths[i]);
                for (; n < 11 + padding; n++) bytes[n] = 0;
                ow_open_bytes(&source, bytes, n);
                read_everything(&source, OW_ModelProto);
                EXPECT(source.error.code == OW_ERROR_PAST_END || source.error.code == OW_ERROR_LENGTH);
                from.bytes = bytes;
                from.size = n;
                ow_open(&source, read_memory, &from, n, buffer, sizeof buffer);
                read_everything(&source, OW_ModelProto);
                EXPECT(source.error.code == OW_ERROR_PAST_END || source.error.code == OW_ERROR_LENGTH);
            }
        }
    }
}

/* Reads every prefix of the model, in memory that ends with the prefix. */
static void truncated_models_are_rejected_or_read(void) {
    size_t n;
    for (n = 0; n <= MODEL_SIZE; n++) {
        unsigned char *bytes = (unsigned char *)malloc(n ? n : 1);
        ow_source source;
        memcpy(bytes, model_bytes, n);
        ow_open_bytes(&source, bytes, n);
        read_everything(&source, OW_ModelProto);
        /* The first two bytes are the record of ir_version. */
        EXPECT((source.error.code == OW_OK) == (n == 0 || n == 2 || n == MODEL_SIZE));
        free(bytes);
    }
}

/* --- arguments of the caller */

static void wrong_arguments_are_rejected(void) {
    unsigned char buffer[64];
    memory from = {model_bytes, MODEL_SIZE, 0};
    ow_source source;
    ow_fields fields, child;
    ow_message root, message;
    ow_slot slots[OW_MAX_FIELDS];
    ow_elements elements;
    ow_tensor tensor;
    char path[4] = "abc";
    static const int tables[] = {-1, OW_N_TABLES, INT32_MAX, INT32_MIN};
    size_t i;
    EXPECT(ow_open(&source, read_memory, &from, 1, buffer, 63) == OW_ERROR_ARGUMENT);
    EXPECT(ow_open(&source, read_memory, &from, 1, NULL, 64) == OW_ERROR_ARGUMENT);
    EXPECT(ow_open(&source, NULL, &from, 1, buffer, 64) == OW_ERROR_ARGUMENT);
    EXPECT(read_everything(&source, OW_ModelProto) == 0);
    ow_open_bytes(&source, NULL, 1);
    EXPECT(source.error.code == OW_ERROR_ARGUMENT && read_everything(&source, OW_ModelProto) == 0);
    ow_open_bytes(&source, NULL, 0);
    EXPECT(source.error.code == OW_OK && read_everything(&source, OW_ModelProto) == 0 && source.error.code == OW_OK);
#if SIZE_MAX < UINT64_MAX
    ow_open_bytes(&source, model_bytes, (uint64_t)SIZE_MAX + 1 + MODEL_SIZE);
    EXPECT(source.error.code == OW_ERROR_ARGUMENT && read_everything(&source, OW_ModelProto) == 0);
#endif
    for (i = 0; i < 4; i++) {
        ow_open_bytes(&source, model_bytes, MODEL_SIZE);
        EXPECT(read_everything(&source, tables[i]) == 0 && source.error.code == OW_ERROR_ARGUMENT);
        ow_open_bytes(&source, model_bytes, MODEL_SIZE);
        ow_root(&root, &source, OW_ModelProto);
        EXPECT(ow_scan(&root, slots) == OW_OK);
        EXPECT(ow_child(&root, tables[i] == OW_N_TABLES ? root.table->n_fields : tables[i], slots, &message) == OW_ERROR_ARGUMENT);
        EXPECT(ow_scan(&message, slots) == OW_ERROR_ARGUMENT);
        ow_open_bytes(&source, model_bytes, MODEL_SIZE);
        EXPECT(ow_scan(&root, slots) == OW_OK);
        ow_elements_of(&root, tables[i] == OW_N_TABLES ? root.table->n_fields : tables[i], slots, &elements);
        EXPECT(source.error.code == OW_ERROR_ARGUMENT && ow_next(&elements) == 0);
        EXPECT(ow_element_message(&elements, &message) == OW_ERROR_ARGUMENT);
    }
    ow_open_bytes(&source, model_bytes, MODEL_SIZE);
    ow_root_fields(&fields, &source, OW_ModelProto);
    EXPECT(ow_enter(&fields, &child) == OW_ERROR_ARGUMENT && ow_next_field(&child) == 0); /* before the first value */
    ow_open_bytes(&source, model_bytes, MODEL_SIZE);
    ow_root_fields(&fields, &source, OW_ModelProto);
    while (ow_next_field(&fields) && fields.row != OW_ModelProto_graph) continue;
    memset(&child, 0xFF, sizeof child);
    EXPECT(ow_enter(&fields, &child) == OW_OK);
    /* Before its first value, `child` has the row of the first field, node, and an empty span. */
    EXPECT(ow_enter(&child, &fields) == OW_OK && ow_next_field(&fields) == 0 && source.error.code == OW_OK);
    ow_open_bytes(&source, model_bytes, MODEL_SIZE);
    ow_root_fields(&fields, &source, OW_ModelProto);
    EXPECT(ow_next_field(&fields) == 1 && ow_value_message(&fields, &message) == OW_ERROR_ARGUMENT); /* a number */
    EXPECT(ow_next_field(&fields) == 0);
    ow_open_bytes(&source, model_bytes, MODEL_SIZE);
    ow_root(&root, &source, OW_ModelProto);
    EXPECT(ow_read_tensor(&root, &tensor, NULL, 0) == OW_ERROR_ARGUMENT);
    ow_open_bytes(&source, model_bytes, MODEL_SIZE);
    /* The byte 20 is in graph.node[0].attribute[0]. 26 is the length of this path. */
    EXPECT(ow_path_at(&source, OW_ModelProto, 20, NULL, 0) == 26);
    EXPECT(ow_path_at(&source, OW_ModelProto, 20, path, 4) == 26 && memcmp(path, "gra", 4) == 0);
    EXPECT(ow_path_at(&source, OW_ModelProto, 20, path, 1) == 26 && path[0] == 0);
    EXPECT(ow_path_at(&source, -1, 20, path, 4) == 0 && source.error.code == OW_OK);
    EXPECT(ow_path_at(&source, OW_ModelProto, UINT64_MAX, path, 4) == 0);
}

/* Behaves like a caller that ignores errors and descends further and further. */
static void depth_is_limited_if_errors_are_ignored(void) {
    unsigned char bytes[600];
    size_t n = sizeof bytes;
    ow_source source;
    ow_message chain[300];
    ow_slot slots[OW_MAX_FIELDS];
    int i;
    ow_fields fields, child;
    /* A type with 140 levels: alternately a sequence_type and its elem_type. */
    for (i = 0; i < 140; i++) {
        unsigned char head[4];
        size_t n_head = 0, size = sizeof bytes - n;
        head[n_head++] = i % 2 ? 0x22 : 0x0A; /* sequence_type, elem_type */
        n_head += put_varint(head + n_head, size);
        n -= n_head;
        memcpy(bytes + n, head, n_head);
    }
    ow_open_bytes(&source, bytes + n, sizeof bytes - n);
    ow_root(&chain[0], &source, OW_TypeProto);
    for (i = 0; i + 1 < 300; i++) {
        ow_scan(&chain[i], slots);
        const int row = i % 2 ? OW_TypeProto_Sequence_elem_type : OW_TypeProto_sequence_type;
        slots[row].records = 2; /* pretends that the nested message has two pieces */
        slots[row].first = 0;
        ow_child(&chain[i], row, slots, &chain[i + 1]);
        EXPECT(chain[i + 1].depth <= OW_MAX_DEPTH);
    }
    EXPECT(source.error.code == OW_ERROR_DEPTH);
    ow_open_bytes(&source, bytes + n, sizeof bytes - n);
    ow_root_fields(&fields, &source, OW_TypeProto);
    for (i = 0; i < 300; i++) {
        ow_next_field(&fields);
        ow_enter(&fields, &child);
        fields = child;
    }
    EXPECT(source.error.code == OW_ERROR_DEPTH);
}

int main(void) {
    failing_reads_end_all_loops();
    reentrant_reads_are_rejected();
    values_at_huge_offsets_are_read();
    lengths_past_the_end_are_rejected();
    truncated_models_are_rejected_or_read();
    wrong_arguments_are_rejected();
    depth_is_limited_if_errors_are_ignored();
    puts("no attack succeeded");
    return 0;
}
