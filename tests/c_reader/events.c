/* Writes the values of a message as lines of text: path, tab, value. Built as a shared library by the tests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONNXWIRE_IMPLEMENTATION
#include "onnxwire.h"

typedef struct output {
    char *bytes;
    size_t size, capacity;
} output;

static void put(output *out, const void *bytes, size_t size) {
    if (out->size + size > out->capacity) {
        out->capacity = 2 * (out->size + size);
        out->bytes = (char *)realloc(out->bytes, out->capacity);
        if (out->bytes == NULL) abort();
    }
    memcpy(out->bytes + out->size, bytes, size);
    out->size += size;
}

static void put_value(output *out, const ow_message *message, const ow_field *field, long index, ow_span span, uint64_t bits) {
    char path[8192], number[40];
    size_t size = ow_path(message, path, sizeof path);
    if (size >= sizeof path) abort();
    put(out, path, size);
    put(out, ".", 1);
    put(out, field->name, strlen(field->name));
    if (field->is_repeated) put(out, number, (size_t)snprintf(number, sizeof number, "[%ld]", index));
    put(out, "\t", 1);
    if (field->type == OW_STRING || field->type == OW_BYTES) {
        char *bytes = (char *)malloc((size_t)(span.end - span.start) + 1);
        if (ow_read(message->source, span.start, bytes, (size_t)(span.end - span.start)) == OW_OK)
            put(out, bytes, (size_t)(span.end - span.start));
        free(bytes);
    } else if (field->type == OW_FLOAT || field->type == OW_DOUBLE) {
        put(out, number, (size_t)snprintf(number, sizeof number, "%llx", (unsigned long long)bits));
    } else if (field->type == OW_UINT64) {
        put(out, number, (size_t)snprintf(number, sizeof number, "%llu", (unsigned long long)ow_int(field, bits)));
    } else {
        put(out, number, (size_t)snprintf(number, sizeof number, "%lld", (long long)ow_int(field, bits)));
    }
    put(out, "\n", 1);
}

static void walk(const ow_message *message, output *out) {
    ow_slot slots[OW_MAX_FIELDS];
    ow_elements elements;
    ow_message child;
    int row;
    put(out, "{", 1);
    if (ow_scan(message, slots) != OW_OK) return;
    for (row = 0; row < message->table->n_fields; row++) {
        const ow_field *field = &message->table->fields[row];
        if (slots[row].records == 0) continue;
        if (!field->is_repeated && field->type == OW_MESSAGE) {
            if (ow_child(message, row, slots, &child) != OW_OK) return;
            walk(&child, out);
        } else if (!field->is_repeated) {
            put_value(out, message, field, 0, slots[row].span, slots[row].bits);
        } else {
            ow_elements_of(message, row, slots, &elements);
            while (ow_next(&elements)) {
                if (field->type != OW_MESSAGE) {
                    put_value(out, message, field, (long)elements.index - 1, elements.span, elements.bits);
                } else {
                    if (ow_element_message(&elements, &child) != OW_OK) return;
                    walk(&child, out);
                }
            }
        }
        if (message->source->error.code != OW_OK) return;
    }
    put(out, "}", 1);
}

typedef struct memory {
    const unsigned char *bytes;
    size_t size, n_read;
} memory;

static int read_memory(void *context, uint64_t offset, void *buffer, size_t size) {
    memory *from = (memory *)context;
    if (offset > from->size || size > from->size - offset) abort();
    memcpy(buffer, from->bytes + offset, size);
    from->n_read += size;
    return 0;
}

/* Returns the error's code. window: the size of the buffer through which the bytes are read; 0 for bytes in memory. */
int events(const void *bytes, size_t size, int table, size_t window, char **text, size_t *text_size) {
    ow_source source;
    ow_message root;
    memory from;
    output out = {NULL, 0, 0};
    void *buffer = window ? malloc(window) : NULL;
    from.bytes = (const unsigned char *)bytes;
    from.size = size;
    from.n_read = 0;
    if (window)
        ow_open(&source, read_memory, &from, size, buffer, window);
    else
        ow_open_bytes(&source, bytes, size);
    ow_root(&root, &source, table);
    walk(&root, &out);
    free(buffer);
    *text = out.bytes;
    *text_size = out.size;
    return (int)source.error.code;
}

void release(char *text) { free(text); }

int table_number(const char *name) {
    int i;
    for (i = 0; i < OW_N_TABLES; i++)
        if (strcmp(ow_tables[i].name, name) == 0) return i;
    return -1;
}
