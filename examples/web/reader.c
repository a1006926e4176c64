/* onnxwire.h for WebAssembly: the values of a model, one at a time, from a source that JavaScript reads.

   JavaScript reads asynchronously, but onnxwire.h synchronously. Therefore `step` and `read_tensor` stop if they
   need bytes that are not loaded: `read_bytes` records their range and fails, and the function returns OW_WEB_NEEDED.
   After JavaScript has loaded the bytes, it repeats the call; `step` continues after the last complete record, and
   `read_tensor` reads the tensor again. The state between two calls is one ow_fields for each level of messages.

   Offsets in the source are doubles, which are exact up to 2^53. */
#define ONNXWIRE_IMPLEMENTATION
#include "onnxwire.h"

#ifdef __wasm__
#define EXPORT(name) __attribute__((export_name(#name)))
/* Copies a range of the source to `buffer`. Returns 0, or 1 if some bytes must be loaded first. */
__attribute__((import_module("source"), import_name("read_bytes"))) int read_bytes(double offset, void *buffer, uint32_t size);
#else /* for tests */
#define EXPORT(name)
int (*read_bytes)(double offset, void *buffer, uint32_t size);
#endif

/* The results of `step`, `enter` and `read_tensor`; OW_WEB_VALUE is success. */
enum { OW_WEB_END, OW_WEB_VALUE, OW_WEB_NEEDED, OW_WEB_DAMAGED };
enum { BUFFER_BYTES = 4096, MAX_RANK = 64 };

/* The current value. Each member has 8 bytes, for a Float64Array or BigInt64Array. */
static struct {
    double table, row;  /* of the current field; see field_of */
    double start, end;  /* of a string, bytes or a message */
    int64_t integer;    /* of an integer, bool or enum */
    double real;        /* of a float or double */
    double code, error; /* after OW_WEB_DAMAGED: an ow_code, and the offset of the damage */
} value;

/* The tensor of the last call of read_tensor. */
static struct {
    double name_start, name_end, data_type, rank, n_bytes, is_external, has_length;
    double raw_start, raw_end, location_start, location_end;
    int64_t offset, length;
    int64_t dims[MAX_RANK];
} tensor;

/* A field of a table: see ow_field. */
static struct {
    const char *name;
    uint32_t number, type, is_repeated;
    int32_t message; /* the index of its message's table in ow_tables, or -1 */
} field;

static ow_source source;
static ow_fields levels[OW_MAX_DEPTH + 1];
static uint32_t level;
static unsigned char buffer[BUFFER_BYTES];

static int read_source(void *context, uint64_t offset, void *target, size_t size) {
    (void)context;
    return read_bytes((double)offset, target, (uint32_t)size);
}

/* Returns the reason why a function of onnxwire.h stopped. Clears the error, so that the next call can continue. */
static int take_stop_reason(void) {
    const ow_error error = source.error;
    source.error.code = OW_OK;
    source.error.offset = 0;
    if (error.code == OW_OK) return OW_WEB_END;
    if (error.code == OW_ERROR_READ) return OW_WEB_NEEDED;
    value.code = (double)error.code;
    value.error = (double)error.offset;
    return OW_WEB_DAMAGED;
}

/* Opens a source. Its ModelProto becomes the current message. */
EXPORT(open_source) void open_source(double size) {
    ow_open(&source, read_source, NULL, (uint64_t)size, buffer, sizeof buffer);
    level = 0;
    ow_root_fields(&levels[0], &source, OW_ModelProto);
}

/* Moves to the next value of the current message. */
EXPORT(step) int step(void) {
    ow_fields *fields = &levels[level];
    const ow_field *row;
    if (!ow_next_field(fields)) return take_stop_reason();
    row = &fields->table->fields[fields->row];
    value.table = (double)(fields->table - ow_tables);
    value.row = (double)fields->row;
    value.start = (double)fields->span.start;
    value.end = (double)fields->span.end;
    value.integer = ow_int(row, fields->bits);
    value.real = row->type == OW_FLOAT ? (double)ow_float(fields->bits) : ow_double(fields->bits);
    return OW_WEB_VALUE;
}

/* Skips the remaining values of the packed list that contains the current value. Does nothing for other values. */
EXPORT(skip_list) void skip_list(void) {
    if (levels[level].run.end != 0) levels[level].run.start = levels[level].run.end;
}

/* Makes the current value, which is a message, the current message. */
EXPORT(enter) int enter(void) {
    if (ow_enter(&levels[level], &levels[level < OW_MAX_DEPTH ? level + 1 : level]) != OW_OK) return take_stop_reason();
    level++;
    return OW_WEB_VALUE;
}

/* Leaves the current message, unless it is the ModelProto, and continues after it in the message around it. */
EXPORT(leave) void leave(void) {
    if (level > 0) level--;
}

/* Reads the current value, which is a TensorProto. */
EXPORT(read_tensor) int read_tensor(void) {
    ow_message message;
    ow_tensor result;
    ow_code code;
    if (ow_value_message(&levels[level], &message) != OW_OK) return take_stop_reason();
    code = ow_read_tensor(&message, &result, tensor.dims, MAX_RANK);
    if (code != OW_OK) {
        const int reason = take_stop_reason();
        if (reason != OW_WEB_END) return reason;
        value.code = (double)code; /* an error of this tensor, not of the source */
        value.error = (double)message.span.start;
        return OW_WEB_DAMAGED;
    }
    tensor.name_start = (double)result.name.start;
    tensor.name_end = (double)result.name.end;
    tensor.data_type = (double)result.data_type;
    tensor.rank = (double)result.rank;
    tensor.n_bytes = (double)result.n_bytes;
    tensor.is_external = (double)result.is_external;
    tensor.has_length = (double)result.has_length;
    tensor.raw_start = (double)result.raw_data.start;
    tensor.raw_end = (double)result.raw_data.end;
    tensor.location_start = (double)result.location.start;
    tensor.location_end = (double)result.location.end;
    tensor.offset = (int64_t)result.offset;
    tensor.length = (int64_t)result.length;
    return OW_WEB_VALUE;
}

/* Returns the description of a field by table and row, or NULL if there is none. */
EXPORT(field_of) const void *field_of(uint32_t table, uint32_t row) {
    const ow_field *result;
    if (table >= sizeof ow_tables / sizeof *ow_tables || row >= ow_tables[table].n_fields) return NULL;
    result = &ow_tables[table].fields[row];
    field.name = result->name;
    field.number = result->number;
    field.type = result->type;
    field.is_repeated = result->is_repeated;
    field.message = result->type == OW_MESSAGE ? result->message : -1;
    return &field;
}

EXPORT(value_address) const void *value_address(void) { return &value; }
EXPORT(tensor_address) const void *tensor_address(void) { return &tensor; }
