/* The C structs through which DLPack (https://dmlc.github.io/dlpack) passes an array from one library to another.
 *
 * Only what a CPU array needs. The order and width of the fields are the interface; so are the numbers.
 */
#ifndef ONNXWIRE_DLPACK_H
#define ONNXWIRE_DLPACK_H

#include <stdint.h>

enum { OW_DL_CPU = 1 }; /* device type */
enum { OW_DL_READ_ONLY = 1, OW_DL_IS_COPIED = 2, OW_DL_PADDED = 4 /* sub-byte elements take a byte each */ };

typedef struct {
    void *data;          /* NULL where the array has no elements */
    int32_t device_type; /* declared as an enum, which is an int to every compiler in question */
    int32_t device_id;   /* 0 for the CPU */
    int32_t ndim;
    uint8_t code;     /* of the type: 0 int, 1 unsigned, 2 float, 4 bfloat16, 5 complex, 6 bool, 7... small floats */
    uint8_t bits;     /* of an element */
    uint16_t lanes;   /* 1: no vectors */
    int64_t *shape;   /* ndim numbers */
    int64_t *strides; /* ndim numbers, counted in elements */
    uint64_t byte_offset;
} OwDLTensor;

/* What a capsule named "dltensor" holds. Whoever takes it renames the capsule and calls the deleter in the end. */
typedef struct OwDLManaged {
    OwDLTensor tensor;
    void *manager;
    void (*deleter)(struct OwDLManaged *);
} OwDLManaged;

/* What a capsule named "dltensor_versioned" holds, since version 1.0. */
typedef struct OwDLVersioned {
    uint32_t major;
    uint32_t minor;
    void *manager;
    void (*deleter)(struct OwDLVersioned *);
    uint64_t flags;
    OwDLTensor tensor;
} OwDLVersioned;

#endif
