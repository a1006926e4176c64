/* libFuzzer's target for onnxwire.h: `make fuzz-c`.

   Each input is read as a ModelProto and as a message that its last byte selects: in memory and through a window, in one
   pass and with ow_scan. All must agree on the values, or on the error and its offset. Then it is read through a function
   whose bytes change and that fails at last; no value is expected there. */
#include "events.c"

typedef struct outcome {
    output text;
    ow_error error;
} outcome;

typedef struct unsteady {
    memory from;
    uint32_t n_calls, seed;
} unsteady;

static int read_unsteady(void *context, uint64_t offset, void *buffer, size_t size) {
    unsteady *state = (unsteady *)context;
    if (state->n_calls++ > 2000 + state->seed % 64) return 1;
    if (read_memory(&state->from, offset, buffer, size) != 0) return 1;
    state->seed = state->seed * 1664525u + 1013904223u;
    if (size > 0 && state->seed >> 30 == 0) ((unsigned char *)buffer)[state->seed % size] = (unsigned char)(state->seed >> 16);
    return 0;
}

static void add(uint64_t *digest, uint64_t number) { *digest = (*digest ^ number) * UINT64_C(1099511628211); }

/* Reads all tensors, paths, and messages of values, which the other programs do not, and makes a digest of the tensors. */
static void visit(const ow_message *message, uint64_t *digest) {
    ow_slot slots[OW_MAX_FIELDS];
    ow_pieces pieces;
    ow_fields fields;
    char path[64];
    ow_path(message, path, sizeof path);
    if (message->table == &ow_tables[OW_TensorProto]) {
        ow_tensor tensor;
        int64_t dims[3];
        add(digest, (uint64_t)ow_read_tensor(message, &tensor, dims, 3));
        add(digest, tensor.name.end ^ tensor.raw_data.start ^ tensor.location.end);
        add(digest, tensor.n_bytes ^ tensor.offset ^ tensor.length << 1);
        add(digest, tensor.flags ^ (uint64_t)tensor.field << 8 ^ (uint64_t)tensor.rank << 16);
    }
    if (ow_scan(message, slots) != OW_OK) return;
    ow_pieces_of(message, &pieces);
    while (ow_next_piece(&pieces, &fields)) {
        while (ow_next_field(&fields)) {
            ow_message child;
            const ow_field *field = ow_field_of(&fields);
            if (field->type != OW_MESSAGE || ow_value_message(&fields, &child) != OW_OK) continue;
            visit(&child, digest);
            if (!field->is_repeated && slots[fields.row].records > 0 &&
                ow_child(message, (int)fields.row, slots, &child) == OW_OK)
                ow_scan(&child, slots);
            if (ow_scan(message, slots) != OW_OK) return;
        }
    }
}

static outcome read_all(const uint8_t *data, size_t size, int table, size_t window, int is_one_pass) {
    outcome result = {{NULL, 0, 0}, {OW_OK, 0}};
    ow_source source;
    unsigned char buffer[4096];
    memory from;
    open_memory(&source, &from, data, size, buffer, window);
    write_events(&source, table, is_one_pass, &result.text);
    result.error = source.error;
    return result;
}

static int is_equal(const outcome *one, const outcome *other) {
    if (one->error.code != OW_OK) return one->error.code == other->error.code && one->error.offset == other->error.offset;
    return other->error.code == OW_OK && one->text.size == other->text.size &&
           memcmp(one->text.bytes, other->text.bytes, one->text.size) == 0;
}

static void check(const uint8_t *data, size_t size, int table) {
    outcome in_memory = read_all(data, size, table, 0, 1), through_window = read_all(data, size, table, 64, 1);
    outcome scanned = read_all(data, size, table, 0, 0), scanned_window = read_all(data, size, table, 100, 0);
    if (!is_equal(&in_memory, &through_window)) abort();
    if (!is_equal(&scanned, &scanned_window)) abort();
    /* ow_scan does not see damage in what another value supersedes. */
    if (in_memory.error.code == OW_OK && !is_equal(&in_memory, &scanned)) abort();
    free(in_memory.text.bytes);
    free(through_window.text.bytes);
    free(scanned.text.bytes);
    free(scanned_window.text.bytes);
}

static void disturb(const uint8_t *data, size_t size, int table) {
    unsigned char buffer[96];
    uint64_t digest = 0, same = 0;
    ow_error error;
    unsteady state = {{NULL, 0, 0}, 0, 0};
    ow_source source;
    ow_message root;
    output text = {NULL, 0, 0};
    char path[40];
    size_t i;
    state.from.bytes = data;
    state.from.size = size;
    for (i = 0; i < size; i++) state.seed = state.seed * 31 + data[i];
    ow_open(&source, read_unsteady, &state, size, buffer, sizeof buffer);
    write_events(&source, table, (int)(state.seed & 1), &text);
    free(text.bytes);
    state.n_calls = 0;
    ow_open(&source, read_unsteady, &state, size, buffer, sizeof buffer);
    ow_root(&root, &source, table);
    visit(&root, &digest);
    ow_path_at(&source, table, source.error.offset, path, sizeof path);
    digest = 0;
    ow_open(&source, read_memory, &state.from, size, buffer, 64);
    ow_root(&root, &source, table);
    visit(&root, &digest);
    error = source.error;
    ow_open_bytes(&source, data, size);
    ow_root(&root, &source, table);
    visit(&root, &same);
    if (digest != same || error.code != source.error.code || error.offset != source.error.offset) abort();
    ow_path_at(&source, table, source.error.code != OW_OK ? source.error.offset : size / 2, path, sizeof path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int tables[2] = {OW_ModelProto, OW_ModelProto}, i;
    if (size == 0) return 0;
    tables[1] = data[size - 1] % OW_N_TABLES;
    for (i = 0; i < 2; i++) {
        check(data, size, tables[i]);
        disturb(data, size, tables[i]);
    }
    return 0;
}
