/* Writes the values of a message as lines of text: path, tab, value. Built as a shared library by the tests.

   Two programs write the same lines: one reads each message with ow_scan, the other collects a tree of objects from the
   values that ow_next_field delivers. */
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

static void put_value(output *out, ow_source *source, const char *path, const ow_field *field, long index, ow_span span,
                      uint64_t bits) {
    char number[40];
    put(out, path, strlen(path));
    put(out, ".", 1);
    put(out, field->name, strlen(field->name));
    if (field->is_repeated) put(out, number, (size_t)snprintf(number, sizeof number, "[%ld]", index));
    put(out, "\t", 1);
    if (field->type == OW_STRING || field->type == OW_BYTES) {
        char *bytes = (char *)malloc((size_t)(span.end - span.start) + 1);
        if (ow_read(source, span.start, bytes, (size_t)(span.end - span.start)) == OW_OK)
            put(out, bytes, (size_t)(span.end - span.start));
        free(bytes);
    } else if (field->type == OW_FLOAT || field->type == OW_DOUBLE) {
        /* Python's floats are doubles, and the conversion makes NaNs of float32 quiet. */
        if (field->type == OW_FLOAT && (bits & 0x7F800000) == 0x7F800000 && (bits & 0x7FFFFF) != 0) bits |= 0x400000;
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
    char path[8192];
    int row;
    if (ow_path(message, path, sizeof path) >= sizeof path) abort();
    put(out, "{", 1);
    if (ow_scan(message, slots) != OW_OK) return;
    for (row = 0; row < message->table->n_fields; row++) {
        const ow_field *field = &message->table->fields[row];
        if (slots[row].records == 0) continue;
        if (!field->is_repeated && field->type == OW_MESSAGE) {
            if (ow_child(message, row, slots, &child) != OW_OK) return;
            walk(&child, out);
        } else if (!field->is_repeated) {
            put_value(out, message->source, path, field, 0, slots[row].span, slots[row].bits);
        } else {
            ow_elements_of(message, row, slots, &elements);
            while (ow_next(&elements)) {
                if (field->type != OW_MESSAGE) {
                    put_value(out, message->source, path, field, (long)elements.index - 1, elements.span, elements.bits);
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

typedef struct value {
    ow_span span;
    uint64_t bits;
    struct object *object;
} value;

typedef struct values {
    value *items;
    size_t n, capacity;
} values;

typedef struct object {
    const ow_table *table;
    values fields[OW_MAX_FIELDS];
} object;

static object *new_object(const ow_table *table) {
    object *made = (object *)calloc(1, sizeof *made);
    if (made == NULL) abort();
    made->table = table;
    return made;
}

static void delete_object(object *deleted);

static void clear(values *field) {
    while (field->n > 0)
        if (field->items[--field->n].object != NULL) delete_object(field->items[field->n].object);
}

static void delete_object(object *deleted) {
    int row;
    for (row = 0; row < deleted->table->n_fields; row++) {
        clear(&deleted->fields[row]);
        free(deleted->fields[row].items);
    }
    free(deleted);
}

/* Reads all values into an object, in order of the bytes. Returns whether there was no error. */
static int collect(ow_fields *fields, object *to) {
    while (ow_next_field(fields)) {
        const ow_field *field = ow_field_of(fields);
        values *at = &to->fields[fields->row];
        int row;
        for (row = 0; field->oneof && row < fields->table->n_fields; row++)
            if (fields->table->fields[row].oneof == field->oneof && row != (int)fields->row) clear(&to->fields[row]);
        if (at->n == 0 || field->is_repeated) {
            if (at->n == at->capacity) {
                at->capacity = 2 * at->capacity + 1;
                at->items = (value *)realloc(at->items, at->capacity * sizeof *at->items);
                if (at->items == NULL) abort();
            }
            at->items[at->n].object = field->type == OW_MESSAGE ? new_object(&ow_tables[field->message]) : NULL;
            at->n++;
        }
        at->items[at->n - 1].span = fields->span;
        at->items[at->n - 1].bits = fields->bits;
        if (field->type == OW_MESSAGE) {
            ow_fields child;
            if (ow_enter(fields, &child) != OW_OK || !collect(&child, at->items[at->n - 1].object)) return 0;
        }
    }
    return fields->source->error.code == OW_OK;
}

static void put_object(output *out, ow_source *source, const object *from, char *path, size_t capacity) {
    const size_t length = strlen(path);
    size_t i;
    int row;
    put(out, "{", 1);
    for (row = 0; row < from->table->n_fields; row++) {
        const ow_field *field = &from->table->fields[row];
        for (i = 0; i < from->fields[row].n; i++) {
            const value *item = &from->fields[row].items[i];
            if (item->object == NULL) {
                put_value(out, source, path, field, (long)i, item->span, item->bits);
                continue;
            }
            if (capacity - length < 64) abort();
            snprintf(path + length, capacity - length, length ? ".%s" : "%s", field->name);
            if (field->is_repeated) snprintf(path + strlen(path), capacity - strlen(path), "[%ld]", (long)i);
            put_object(out, source, item->object, path, capacity);
            path[length] = 0;
        }
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

/* Writes all values of a source's message. is_one_pass: whether ow_next_field reads. */
static void write_events(ow_source *source, int table, int is_one_pass, output *out) {
    char path[8192] = "";
    object *tree;
    ow_fields fields;
    ow_message root;
    if (!is_one_pass) {
        ow_root(&root, source, table);
        walk(&root, out);
        return;
    }
    tree = new_object(&ow_tables[table]);
    ow_root_fields(&fields, source, table);
    if (collect(&fields, tree)) put_object(out, source, tree, path, sizeof path);
    delete_object(tree);
}

/* Opens bytes directly, or through read_memory with a buffer of `window` bytes if that is not 0. */
static void open_memory(ow_source *source, memory *from, const void *bytes, size_t size, void *buffer, size_t window) {
    from->bytes = (const unsigned char *)bytes;
    from->size = size;
    from->n_read = 0;
    if (window)
        ow_open(source, read_memory, from, size, buffer, window);
    else
        ow_open_bytes(source, bytes, size);
}

/* Returns the error's code. window: the size of the buffer through which the bytes are read; 0 for bytes in memory. */
int events(const void *bytes, size_t size, int table, size_t window, int is_one_pass, char **text, size_t *text_size) {
    ow_source source;
    memory from;
    output out = {NULL, 0, 0};
    void *buffer = window ? malloc(window) : NULL;
    open_memory(&source, &from, bytes, size, buffer, window);
    write_events(&source, table, is_one_pass, &out);
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

const char *table_name(int number) { return ow_tables[number % OW_N_TABLES].name; }
