/* The function that libFuzzer calls to test onnxwire.h: `make fuzz-c`.

   Each input is read as a ModelProto and as a message of the type that its last byte selects: in memory and through a
   small buffer (a window), with ow_next_field ("in one pass") and with ow_scan. The reads in memory and through a
   window must give the same values, or the same error at the same offset, and so must ow_read_tensor. If a read in
   one pass succeeds, ow_scan must give the same values. Besides, the input is read through a function that sometimes
   changes a byte and fails after some 2,000 calls; the values of these reads are not checked. */
#include "events.c"

typedef struct outcome {
    output text;
    ow_error error;
} outcome;

typedef struct changing_memory {
    memory source_memory;
    uint32_t n_calls, seed;
} changing_memory;

/* Reads memory; changes one byte in a quarter of the calls, and fails after some 2,000 calls. */
static int read_changing_memory(void *context, uint64_t offset, void *buffer, size_t size) {
    changing_memory *state = (changing_memory *)context;
    if (state->n_calls++ > 2000 + state->seed % 64) return 1;
    if (read_memory(&state->source_memory, offset, buffer, size) != 0) return 1;
    state->seed = state->seed * 1664525u + 1013904223u; /* a linear congruential generator */
    if (size > 0 && state->seed >> 30 == 0) ((unsigned char *)buffer)[state->seed % size] = (unsigned char)(state->seed >> 16);
    return 0;
}

/* Adds a number to a digest by a step of FNV-1a. */
static void add_to_digest(uint64_t *digest, uint64_t number) { *digest = (*digest ^ number) * UINT64_C(1099511628211); }

/* Calls ow_path, ow_read_tensor, ow_pieces_of, ow_value_message and ow_child for a message and all messages in it. Adds
   the tensors to *digest. */
static void read_tensors_and_paths(const ow_message *message, uint64_t *digest) {
    ow_slot slots[OW_MAX_FIELDS];
    ow_pieces pieces;
    ow_fields fields;
    char path[64];
    ow_path(message, path, sizeof path);
    if (message->table == &ow_tables[OW_TensorProto]) {
        ow_tensor tensor;
        int64_t dims[3];
        add_to_digest(digest, (uint64_t)ow_read_tensor(message, &tensor, dims, 3));
        add_to_digest(digest, tensor.name.end ^ tensor.raw_data.start ^ tensor.location.end);
        add_to_digest(digest, tensor.n_bytes ^ tensor.offset ^ tensor.length << 1);
        add_to_digest(digest, tensor.flags ^ (uint64_t)tensor.field << 8 ^ (uint64_t)tensor.rank << 16);
    }
    if (ow_scan(message, slots) != OW_OK) return;
    ow_pieces_of(message, &pieces);
    while (ow_next_piece(&pieces, &fields)) {
        while (ow_next_field(&fields)) {
            ow_message child;
            const ow_field *field = ow_field_of(&fields);
            if (field->type != OW_MESSAGE || ow_value_message(&fields, &child) != OW_OK) continue;
            read_tensors_and_paths(&child, digest);
            if (!field->is_repeated && slots[fields.row].records > 0 &&
                ow_child(message, (int)fields.row, slots, &child) == OW_OK)
                ow_scan(&child, slots);
            if (ow_scan(message, slots) != OW_OK) return; /* `slots` may contain those of the child */
        }
    }
}

/* Reads a message. window: the size of the buffer through which the bytes are read; 0: in memory. is_one_pass: with
   ow_next_field, else with ow_scan. */
static outcome read_all(const uint8_t *data, size_t size, int table, size_t window, int is_one_pass) {
    outcome result = {{NULL, 0, 0}, {OW_OK, 0}};
    ow_source source;
    unsigned char buffer[4096];
    memory source_memory;
    open_memory(&source, &source_memory, data, size, buffer, window);
    write_events(&source, table, is_one_pass, &result.text);
    result.error = source.error;
    return result;
}

static int is_equal(const outcome *first, const outcome *second) {
    if (first->error.code != OW_OK)
        return first->error.code == second->error.code && first->error.offset == second->error.offset;
    return second->error.code == OW_OK && first->text.size == second->text.size &&
           memcmp(first->text.bytes, second->text.bytes, first->text.size) == 0;
}

static void check_results(const uint8_t *data, size_t size, int table) {
    outcome in_memory = read_all(data, size, table, 0, 1), through_window = read_all(data, size, table, 64, 1);
    outcome scanned = read_all(data, size, table, 0, 0), scanned_through_window = read_all(data, size, table, 100, 0);
    if (!is_equal(&in_memory, &through_window)) abort();
    if (!is_equal(&scanned, &scanned_through_window)) abort();
    /* ow_scan may miss damage in a value that a later one replaces. */
    if (in_memory.error.code == OW_OK && !is_equal(&in_memory, &scanned)) abort();
    free(in_memory.text.bytes);
    free(through_window.text.bytes);
    free(scanned.text.bytes);
    free(scanned_through_window.text.bytes);
}

/* Reads a message from a source whose bytes change between reads; only invalid accesses are detected. */
static void check_with_changing_reads(const uint8_t *data, size_t size, int table) {
    unsigned char buffer[96];
    uint64_t digest = 0;
    changing_memory state = {{NULL, 0, 0}, 0, 0};
    ow_source source;
    ow_message root;
    output text = {NULL, 0, 0};
    char path[40];
    size_t i;
    state.source_memory.bytes = data;
    state.source_memory.size = size;
    for (i = 0; i < size; i++) state.seed = state.seed * 31 + data[i];
    ow_open(&source, read_changing_memory, &state, size, buffer, sizeof buffer);
    write_events(&source, table, (int)(state.seed & 1), &text);
    free(text.bytes);
    state.n_calls = 0;
    ow_open(&source, read_changing_memory, &state, size, buffer, sizeof buffer);
    ow_root(&root, &source, table);
    read_tensors_and_paths(&root, &digest);
    ow_path_at(&source, table, source.error.offset, path, sizeof path);
}

static void check_tensors_through_window(const uint8_t *data, size_t size, int table) {
    unsigned char buffer[64];
    uint64_t digest = 0, digest_in_memory = 0;
    ow_error error;
    memory source_memory = {NULL, 0, 0};
    ow_source source;
    ow_message root;
    char path[40];
    source_memory.bytes = data;
    source_memory.size = size;
    ow_open(&source, read_memory, &source_memory, size, buffer, sizeof buffer);
    ow_root(&root, &source, table);
    read_tensors_and_paths(&root, &digest);
    error = source.error;
    ow_open_bytes(&source, data, size);
    ow_root(&root, &source, table);
    read_tensors_and_paths(&root, &digest_in_memory);
    if (digest != digest_in_memory || error.code != source.error.code || error.offset != source.error.offset) abort();
    ow_path_at(&source, table, source.error.code != OW_OK ? source.error.offset : size / 2, path, sizeof path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int tables[2] = {OW_ModelProto, OW_ModelProto}, i;
    if (size == 0) return 0;
    tables[1] = data[size - 1] % OW_N_TABLES;
    for (i = 0; i < 2; i++) {
        check_results(data, size, tables[i]);
        check_with_changing_reads(data, size, tables[i]);
        check_tensors_through_window(data, size, tables[i]);
    }
    return 0;
}
