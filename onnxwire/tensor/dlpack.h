/* The C structs of DLPack (https://dmlc.github.io/dlpack), which passes arrays between libraries.
 *
 * This file declares only the parts for CPU arrays. The order and width of the fields and all numbers are part of the
 * ABI.
 */
#ifndef ONNXWIRE_DLPACK_H
#define ONNXWIRE_DLPACK_H

#include <stdint.h>

enum { OW_DL_CPU = 1 }; /* device type */
/* Flags. */
enum { OW_DL_READ_ONLY = 1, OW_DL_IS_COPIED = 2, OW_DL_PADDED = 4 /* sub-byte elements take one byte each */ };

typedef struct {
    void *data;          /* NULL if the array has no elements */
    int32_t device_type; /* an enum in DLPack, which all relevant compilers represent as int */
    int32_t device_id;   /* 0 for the CPU */
    int32_t ndim;
    uint8_t code;     /* 0 int, 1 unsigned, 2 float, 4 bfloat16, 5 complex, 6 bool, 7 to 17 floats of up to 8 bits */
    uint8_t bits;     /* size of an element without padding */
    uint16_t lanes;   /* 1: not a vector type */
    int64_t *shape;   /* ndim numbers */
    int64_t *strides; /* ndim numbers, in elements */
    uint64_t byte_offset;
} OwDLTensor;

/* The content of a capsule named "dltensor". The consumer renames the capsule, and calls the deleter when done. */
typedef struct OwDLManaged {
    OwDLTensor tensor;
    void *manager; /* for the deleter */
    void (*deleter)(struct OwDLManaged *);
} OwDLManaged;

/* The content of a capsule named "dltensor_versioned", since DLPack 1.0. */
typedef struct OwDLVersioned {
    uint32_t major; /* of the version of DLPack */
    uint32_t minor;
    void *manager;
    void (*deleter)(struct OwDLVersioned *);
    uint64_t flags;
    OwDLTensor tensor;
} OwDLVersioned;

#endif
