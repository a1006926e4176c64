/* List the tensors of the main graph of an ONNX model: those in attributes of its nodes, in initializers and in sparse
   initializers. The elements of the tensors are not read.

   Each line has these columns, separated by tabs: name, data type, dims, "inline" or "external", location or -, offset
   or -, length in bytes.

   Compile it by: cc -O2 -I"$(python -c 'import onnxwire; print(onnxwire.get_include())')" list_tensors.c -o list_tensors */
#define _FILE_OFFSET_BITS 64
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ONNXWIRE_IMPLEMENTATION
#include "onnxwire.h"

enum { BUFFER_BYTES = 4096 };

/* The names of the values of TensorProto.DataType. */
static const char *const type_names[] = {
    "UNDEFINED", "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL", "FLOAT16", "DOUBLE", "UINT32",
    "UINT64", "COMPLEX64", "COMPLEX128", "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ",
    "UINT4", "INT4", "FLOAT4E2M1", "FLOAT8E8M0", "UINT2", "INT2", "FLOAT6E2M3", "FLOAT6E3M2"};

/* The ow_read_function of an open file. context: a pointer to the file descriptor. */
static int read_file(void *context, uint64_t offset, void *buffer, size_t size) {
    int file = *(int *)context;
    char *target = (char *)buffer;
    while (size > 0) {
        ssize_t n_read = pread(file, target, size, (off_t)offset);
        if (n_read <= 0) return 1;
        target += n_read;
        offset += (uint64_t)n_read;
        size -= (size_t)n_read;
    }
    return 0;
}

/* Print a string of the file, with backslashes and all bytes that are not printable ASCII as \xNN, so that no text
 * can affect the lines or the terminal. */
static void print_text(ow_source *source, ow_span span) {
    unsigned char bytes[256];
    while (span.start < span.end) {
        size_t i, size = span.end - span.start < sizeof bytes ? (size_t)(span.end - span.start) : sizeof bytes;
        if (ow_read(source, span.start, bytes, size) != OW_OK) return;
        for (i = 0; i < size; i++) {
            if (bytes[i] < 32 || bytes[i] > 126 || bytes[i] == '\\')
                printf("\\x%02x", bytes[i]);
            else
                putchar(bytes[i]);
        }
        span.start += size;
    }
}

/* Print all dims. A tensor may have any number of them. */
static void print_dims(const ow_message *message) {
    ow_slot slots[OW_MAX_FIELDS];
    ow_elements dims;
    if (ow_scan(message, slots) != OW_OK) return;
    ow_elements_of(message, OW_TensorProto_dims, slots, &dims);
    while (ow_next(&dims)) printf(dims.index > 1 ? "x%" PRId64 : "%" PRId64, (int64_t)dims.bits);
}

static void print_tensor(const ow_message *message) {
    ow_tensor tensor;
    ow_read_tensor(message, &tensor, NULL, 0);
    if (message->source->error.code != OW_OK) return;
    print_text(message->source, tensor.name);
    if (tensor.data_type >= 0 && tensor.data_type < (int32_t)(sizeof type_names / sizeof *type_names))
        printf("\t%s\t", type_names[tensor.data_type]);
    else
        printf("\t%" PRId32 "\t", tensor.data_type);
    print_dims(message);
    if (tensor.is_external) {
        printf("\texternal\t");
        if (tensor.flags & OW_NO_LOCATION) printf("-");
        print_text(message->source, tensor.location);
        if (tensor.flags & (OW_UNCLEAR_OFFSET | OW_NO_LOCATION))
            printf("\t-");
        else
            printf("\t%" PRIu64, tensor.offset);
        printf("\t%" PRIu64 "\n", tensor.has_length ? tensor.length : tensor.n_bytes);
    } else if (tensor.field == OW_TensorProto_raw_data) {
        printf("\tinline\t-\t%" PRIu64 "\t%" PRIu64 "\n", tensor.raw_data.start, tensor.raw_data.end - tensor.raw_data.start);
    } else {
        /* No offset is printed, because a typed field may consist of varints or several records. */
        printf("\tinline\t-\t-\t%" PRIu64 "\n", tensor.n_bytes);
    }
}

static void print_sparse_tensor(const ow_message *sparse) {
    static const int rows[] = {OW_SparseTensorProto_values, OW_SparseTensorProto_indices};
    ow_slot slots[OW_MAX_FIELDS];
    ow_message tensor;
    size_t i;
    if (ow_scan(sparse, slots) != OW_OK) return;
    for (i = 0; i < 2; i++)
        if (slots[rows[i]].records && ow_child(sparse, rows[i], slots, &tensor) == OW_OK) print_tensor(&tensor);
}

/* Print the tensors of a repeated field whose type is TensorProto or SparseTensorProto. */
static void print_repeated(const ow_message *message, int row, const ow_slot *slots) {
    ow_elements elements;
    ow_message child;
    ow_elements_of(message, row, slots, &elements);
    while (ow_next(&elements) && ow_element_message(&elements, &child) == OW_OK) {
        if (elements.field->message == OW_TensorProto)
            print_tensor(&child);
        else
            print_sparse_tensor(&child);
    }
}

static void print_attribute(const ow_message *attribute) {
    ow_slot slots[OW_MAX_FIELDS];
    ow_message child;
    if (ow_scan(attribute, slots) != OW_OK) return;
    if (slots[OW_AttributeProto_t].records && ow_child(attribute, OW_AttributeProto_t, slots, &child) == OW_OK)
        print_tensor(&child);
    print_repeated(attribute, OW_AttributeProto_tensors, slots);
    if (slots[OW_AttributeProto_sparse_tensor].records &&
        ow_child(attribute, OW_AttributeProto_sparse_tensor, slots, &child) == OW_OK)
        print_sparse_tensor(&child);
    print_repeated(attribute, OW_AttributeProto_sparse_tensors, slots);
}

static void print_graph(const ow_message *graph) {
    ow_slot slots[OW_MAX_FIELDS], node_slots[OW_MAX_FIELDS];
    ow_elements nodes, attributes;
    ow_message node, attribute;
    if (ow_scan(graph, slots) != OW_OK) return;
    ow_elements_of(graph, OW_GraphProto_node, slots, &nodes);
    while (ow_next(&nodes)) {
        if (ow_element_message(&nodes, &node) != OW_OK || ow_scan(&node, node_slots) != OW_OK) return;
        ow_elements_of(&node, OW_NodeProto_attribute, node_slots, &attributes);
        while (ow_next(&attributes) && ow_element_message(&attributes, &attribute) == OW_OK) print_attribute(&attribute);
    }
    print_repeated(graph, OW_GraphProto_initializer, slots);
    print_repeated(graph, OW_GraphProto_sparse_initializer, slots);
}

int main(int argc, char **argv) {
    unsigned char buffer[BUFFER_BYTES];
    char path[1024];
    ow_source source;
    ow_message model, graph;
    ow_slot slots[OW_MAX_FIELDS];
    int file;
    off_t size;
    if (argc != 2) {
        fprintf(stderr, "usage: list_tensors MODEL\n");
        return 2;
    }
    file = open(argv[1], O_RDONLY);
    if (file < 0 || (size = lseek(file, 0, SEEK_END)) < 0) {
        perror(argv[1]);
        return 2;
    }
    ow_open(&source, read_file, &file, (uint64_t)size, buffer, sizeof buffer);
    ow_root(&model, &source, OW_ModelProto);
    if (ow_scan(&model, slots) == OW_OK && slots[OW_ModelProto_graph].records &&
        ow_child(&model, OW_ModelProto_graph, slots, &graph) == OW_OK)
        print_graph(&graph);
    if (source.error.code != OW_OK) {
        ow_path_at(&source, OW_ModelProto, source.error.offset, path, sizeof path);
        fprintf(stderr, "%s: damaged at offset %" PRIu64 ", in %s (code %d)\n", argv[1], source.error.offset,
                path[0] ? path : "the model", (int)source.error.code);
        return 2;
    }
    close(file);
    return fflush(stdout) == 0 ? 0 : 2;
}
