/* Writes the values of a message as lines of text: path, tab, value (the bits in hexadecimal for floats and doubles).
   Braces enclose the lines of each message. Tests build this file as a shared library.
   fuzz.c and hostile.c include it.

   The values are read in one of two ways: each message with ow_scan, or in one pass with ow_next_field, whose values
   are collected in a tree of objects. Both write the same lines if there is no error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONNXWIRE_IMPLEMENTATION
#include "onnxwire.h"

typedef struct output {
    char *bytes;
    size_t size, capacity;
} output;

static void append(output *out, const void *bytes, size_t size) {
    if (out->size + size > out->capacity) {
        out->capacity = 2 * (out->size + size);
        out->bytes = (char *)realloc(out->bytes, out->capacity);
        if (out->bytes == NULL) abort();
    }
    memcpy(out->bytes + out->size, bytes, size);
    out->size += size;
}

/* Appends the line of one value. path: the path of its message. index: the element's index, if the field is repeated.
   span, bits: the value as the reader returns it. */
static void append_value(output *out, ow_source *source, const char *path, const ow_field *field, long index,
                         ow_span span, uint64_t bits) {
    char number[40];
    append(out, path, strlen(path));
    append(out, ".", 1);
    append(out, field->name, strlen(field->name));
    if (field->is_repeated) append(out, number, (size_t)snprintf(number, sizeof number, "[%ld]", index));
    append(out, "\t", 1);
    if (field->type == OW_STRING || field->type == OW_BYTES) {
        char *bytes = (char *)malloc((size_t)(span.end - span.start) + 1);
        if (bytes != NULL && ow_read(source, span.start, bytes, (size_t)(span.end - span.start)) == OW_OK)
            append(out, bytes, (size_t)(span.end - span.start));
        free(bytes);
    } else if (field->type == OW_FLOAT || field->type == OW_DOUBLE) {
        /* Python's floats are doubles, and the conversion makes NaNs of float32 quiet. */
        if (field->type == OW_FLOAT && (bits & 0x7F800000) == 0x7F800000 && (bits & 0x7FFFFF) != 0) bits |= 0x400000;
        append(out, number, (size_t)snprintf(number, sizeof number, "%llx", (unsigned long long)bits));
    } else if (field->type == OW_UINT64) {
        append(out, number, (size_t)snprintf(number, sizeof number, "%llu", (unsigned long long)ow_int(field, bits)));
    } else {
        append(out, number, (size_t)snprintf(number, sizeof number, "%lld", (long long)ow_int(field, bits)));
    }
    append(out, "\n", 1);
}

/* Appends the values of a message, which ow_scan reads. */
static void append_scanned(const ow_message *message, output *out) {
    ow_slot slots[OW_MAX_FIELDS];
    ow_elements elements;
    ow_message child;
    char path[8192];
    int row;
    if (ow_path(message, path, sizeof path) >= sizeof path) abort();
    append(out, "{", 1);
    if (ow_scan(message, slots) != OW_OK) return;
    for (row = 0; row < message->table->n_fields; row++) {
        const ow_field *field = &message->table->fields[row];
        if (slots[row].records == 0) continue;
        if (!field->is_repeated && field->type == OW_MESSAGE) {
            if (ow_child(message, row, slots, &child) != OW_OK) return;
            append_scanned(&child, out);
        } else if (!field->is_repeated) {
            append_value(out, message->source, path, field, 0, slots[row].span, slots[row].bits);
        } else {
            ow_elements_of(message, row, slots, &elements);
            while (ow_next(&elements)) {
                if (field->type != OW_MESSAGE) {
                    append_value(out, message->source, path, field, (long)elements.index - 1, elements.span,
                                 elements.bits);
                } else {
                    if (ow_element_message(&elements, &child) != OW_OK) return;
                    append_scanned(&child, out);
                }
            }
        }
        if (message->source->error.code != OW_OK) return;
    }
    append(out, "}", 1);
}

/* A value that ow_next_field returned; object: the nested message, or NULL. */
typedef struct value {
    ow_span span;
    uint64_t bits;
    struct object *object;
} value;

/* The values of one field. */
typedef struct values {
    value *items;
    size_t n, capacity;
} values;

/* A message: the values of each field, by row. */
typedef struct object {
    const ow_table *table;
    values fields[OW_MAX_FIELDS];
} object;

static object *new_object(const ow_table *table) {
    object *result = (object *)calloc(1, sizeof *result);
    if (result == NULL) abort();
    result->table = table;
    return result;
}

static void delete_object(object *tree);

static void delete_values(values *field) {
    while (field->n > 0)
        if (field->items[--field->n].object != NULL) delete_object(field->items[field->n].object);
}

static void delete_object(object *tree) {
    int row;
    for (row = 0; row < tree->table->n_fields; row++) {
        delete_values(&tree->fields[row]);
        free(tree->fields[row].items);
    }
    free(tree);
}

/* Reads all values into an object, in the order of the bytes. Returns whether there was no error. */
static int collect(ow_fields *fields, object *target) {
    while (ow_next_field(fields)) {
        const ow_field *field = ow_field_of(fields);
        values *list = &target->fields[fields->row];
        int row;
        /* A member of a oneof replaces the other members. */
        for (row = 0; field->oneof && row < fields->table->n_fields; row++)
            if (fields->table->fields[row].oneof == field->oneof && row != (int)fields->row)
                delete_values(&target->fields[row]);
        if (list->n == 0 || field->is_repeated) {
            if (list->n == list->capacity) {
                list->capacity = 2 * list->capacity + 1;
                list->items = (value *)realloc(list->items, list->capacity * sizeof *list->items);
                if (list->items == NULL) abort();
            }
            list->items[list->n].object = field->type == OW_MESSAGE ? new_object(&ow_tables[field->message]) : NULL;
            list->n++;
        }
        list->items[list->n - 1].span = fields->span;
        list->items[list->n - 1].bits = fields->bits;
        if (field->type == OW_MESSAGE) {
            ow_fields child;
            if (ow_enter(fields, &child) != OW_OK || !collect(&child, list->items[list->n - 1].object)) return 0;
        }
    }
    return fields->source->error.code == OW_OK;
}

/* Appends the values of an object. path: its path, in a buffer of `capacity` bytes, to which the paths
   of nested messages are also written. */
static void append_object(output *out, ow_source *source, const object *tree, char *path, size_t capacity) {
    const size_t length = strlen(path);
    size_t i;
    int row;
    append(out, "{", 1);
    for (row = 0; row < tree->table->n_fields; row++) {
        const ow_field *field = &tree->table->fields[row];
        for (i = 0; i < tree->fields[row].n; i++) {
            const value *item = &tree->fields[row].items[i];
            if (item->object == NULL) {
                append_value(out, source, path, field, (long)i, item->span, item->bits);
                continue;
            }
            if (capacity - length < 64) abort();
            snprintf(path + length, capacity - length, length ? ".%s" : "%s", field->name);
            if (field->is_repeated) snprintf(path + strlen(path), capacity - strlen(path), "[%ld]", (long)i);
            append_object(out, source, item->object, path, capacity);
            path[length] = 0;
        }
    }
    append(out, "}", 1);
}

typedef struct memory {
    const unsigned char *bytes;
    size_t size, n_read; /* n_read: number of bytes that were read */
} memory;

static int read_memory(void *context, uint64_t offset, void *buffer, size_t size) {
    memory *source_memory = (memory *)context;
    if (offset > source_memory->size || size > source_memory->size - offset) abort();
    memcpy(buffer, source_memory->bytes + offset, size);
    source_memory->n_read += size;
    return 0;
}

/* Writes all values of a source's message, read by ow_next_field if is_one_pass, otherwise by ow_scan. */
static void write_events(ow_source *source, int table, int is_one_pass, output *out) {
    char path[8192] = "";
    object *tree;
    ow_fields fields;
    ow_message root;
    if (!is_one_pass) {
        ow_root(&root, source, table);
        append_scanned(&root, out);
        return;
    }
    tree = new_object(&ow_tables[table]);
    ow_root_fields(&fields, source, table);
    if (collect(&fields, tree)) append_object(out, source, tree, path, sizeof path);
    delete_object(tree);
}

/* Opens bytes directly if `window` is 0, otherwise through read_memory with a buffer of `window` bytes. */
static void open_memory(ow_source *source, memory *source_memory, const void *bytes, size_t size, void *buffer,
                        size_t window) {
    source_memory->bytes = (const unsigned char *)bytes;
    source_memory->size = size;
    source_memory->n_read = 0;
    if (window)
        ow_open(source, read_memory, source_memory, size, buffer, window);
    else
        ow_open_bytes(source, bytes, size);
}

/* Writes the values of a message to `text`, which the caller passes to `release`. Returns the error code, or
   OW_OK. The bytes are read through a buffer of `window` bytes, or directly if `window` is 0. */
int events(const void *bytes, size_t size, int table, size_t window, int is_one_pass, char **text, size_t *text_size) {
    ow_source source;
    memory source_memory;
    output out = {NULL, 0, 0};
    void *buffer = window ? malloc(window) : NULL;
    open_memory(&source, &source_memory, bytes, size, buffer, window);
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
