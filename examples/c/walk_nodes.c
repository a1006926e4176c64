/* List the nodes of the main graph of an ONNX model, and the nodes of subgraphs, which are graphs in attributes.

   Each line has these columns, separated by tabs: operator (with its domain), name, inputs, outputs. Nodes of subgraphs
   are indented.

   Compile it by: cc -O2 -I"$(python -c 'import onnxwire; print(onnxwire.get_include())')" walk_nodes.c -o walk_nodes */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ONNXWIRE_IMPLEMENTATION
#include "onnxwire.h"

static void print_graph(ow_fields graph, unsigned level);

/* Print a string of the file, with ASCII control characters as \xNN: line breaks would divide a line of the list, and
   escape sequences would control the terminal. */
static void print_text(const ow_source *source, ow_span span) {
    for (; source->bytes != NULL && span.start < span.end; span.start++) {
        const unsigned char byte = source->bytes[span.start];
        if (byte < 32 || byte == 127)
            printf("\\x%02x", byte);
        else
            putchar(byte);
    }
}

/* Print a tab, then all strings of a repeated field, separated by commas. */
static void print_texts(ow_fields node, uint32_t row) {
    unsigned n_printed = 0;
    putchar('\t');
    while (ow_next_field(&node)) {
        if (node.row != row) continue;
        if (n_printed++) putchar(',');
        print_text(node.source, node.span);
    }
}

static void print_node(const ow_fields node, unsigned level) {
    ow_span name = {0, 0}, op_type = {0, 0}, domain = {0, 0};
    ow_fields field = node, attribute, graph; /* a copy is an independent iterator */
    while (ow_next_field(&field)) { /* the last value of a field is used */
        if (field.row == OW_NodeProto_name) name = field.span;
        if (field.row == OW_NodeProto_op_type) op_type = field.span;
        if (field.row == OW_NodeProto_domain) domain = field.span;
    }
    printf("%*s", (int)(2 * level), "");
    print_text(node.source, domain);
    if (domain.start < domain.end) printf("::");
    print_text(node.source, op_type);
    putchar('\t');
    print_text(node.source, name);
    print_texts(node, OW_NodeProto_input);
    print_texts(node, OW_NodeProto_output);
    putchar('\n');
    for (field = node; ow_next_field(&field);) {
        if (field.row != OW_NodeProto_attribute || ow_enter(&field, &attribute) != OW_OK) continue;
        while (ow_next_field(&attribute))
            if ((attribute.row == OW_AttributeProto_g || attribute.row == OW_AttributeProto_graphs) &&
                ow_enter(&attribute, &graph) == OW_OK)
                print_graph(graph, level + 1);
    }
}

static void print_graph(ow_fields graph, unsigned level) {
    ow_fields node;
    while (ow_next_field(&graph))
        if (graph.row == OW_GraphProto_node && ow_enter(&graph, &node) == OW_OK) print_node(node, level);
}

int main(int argc, char **argv) {
    ow_source source;
    ow_fields model, graph;
    struct stat status;
    void *bytes = NULL;
    char path[1024];
    int file;
    if (argc != 2) {
        fprintf(stderr, "usage: walk_nodes MODEL\n");
        return 2;
    }
    file = open(argv[1], O_RDONLY);
    if (file >= 0 && fstat(file, &status) == 0 && status.st_size > 0)
        bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (file < 0 || bytes == MAP_FAILED) {
        perror(argv[1]);
        return 2;
    }
    ow_open_bytes(&source, bytes, bytes ? (uint64_t)status.st_size : 0);
    ow_root_fields(&model, &source, OW_ModelProto);
    while (ow_next_field(&model))
        if (model.row == OW_ModelProto_graph && ow_enter(&model, &graph) == OW_OK) print_graph(graph, 0);
    if (source.error.code != OW_OK) {
        ow_path_at(&source, OW_ModelProto, source.error.offset, path, sizeof path);
        fprintf(stderr, "%s: damaged at offset %" PRIu64 ", in %s (code %d)\n", argv[1], source.error.offset,
                path[0] ? path : "the model", (int)source.error.code);
        return 2;
    }
    return fflush(stdout) == 0 ? 0 : 2;
}
