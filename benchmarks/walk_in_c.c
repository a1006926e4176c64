/* The function `walk` of walk_nodes.py, written in C with onnxwire.h. Both read the same fields and return the same
 * checksum: the sum of the numbers and of the lengths of the texts. (They differ for models with texts that are not
 * ASCII, or with several records of a singular field.) */
#define ONNXWIRE_IMPLEMENTATION
#include "onnxwire.h"

static double span_size(const ow_fields *fields) { return (double)(fields->span.end - fields->span.start); }

static double sum_attribute(ow_fields *attribute) {
    double name = 0, doc_string = 0, text = 0, number = 0, integer = 0, integers = 0;
    uint64_t type = 0;
    while (ow_next_field(attribute)) {
        switch (attribute->row) {
        case OW_AttributeProto_name: name = span_size(attribute); break;
        case OW_AttributeProto_doc_string: doc_string = span_size(attribute); break;
        case OW_AttributeProto_type: type = attribute->bits; break;
        case OW_AttributeProto_f: number = ow_float(attribute->bits); break;
        case OW_AttributeProto_i: integer = (double)(int64_t)attribute->bits; break;
        case OW_AttributeProto_s: text = span_size(attribute); break;
        case OW_AttributeProto_ints: integers += (double)(int64_t)attribute->bits; break;
        default: break;
        }
    }
    /* AttributeProto.AttributeType: FLOAT 1, INT 2, STRING 3, INTS 7 */
    return name + doc_string + (type == 1 ? number : type == 2 ? integer : type == 3 ? text : type == 7 ? integers : 0);
}

static double sum_node(ow_fields *node) {
    double total = 0;
    ow_fields inner;
    while (ow_next_field(node)) {
        switch (node->row) {
        case OW_NodeProto_attribute:
            if (ow_enter(node, &inner) == OW_OK) total += sum_attribute(&inner);
            break;
        case OW_NodeProto_metadata_props:
            ow_enter(node, &inner);
            while (ow_next_field(&inner)) total += span_size(&inner);
            break;
        case OW_NodeProto_device_configurations: break;
        default: total += span_size(node);
        }
    }
    return total;
}

static double sum_dim(ow_fields *dim) {
    double total = 0;
    while (ow_next_field(dim)) {
        if (dim->row == OW_TensorShapeProto_Dimension_dim_value) total = (double)(int64_t)dim->bits;
        if (dim->row == OW_TensorShapeProto_Dimension_dim_param) total = span_size(dim);
    }
    return total;
}

static double sum_tensor_type(ow_fields *type) {
    double dims = 0, elem_type = 0;
    ow_fields shape, dim;
    while (ow_next_field(type)) {
        if (type->row == OW_TypeProto_Tensor_elem_type) elem_type = (double)type->bits;
        if (type->row != OW_TypeProto_Tensor_shape) continue;
        ow_enter(type, &shape);
        while (ow_next_field(&shape))
            if (shape.row == OW_TensorShapeProto_dim && ow_enter(&shape, &dim) == OW_OK) dims += sum_dim(&dim);
    }
    return dims + elem_type;
}

static double sum_value_info(ow_fields *value) {
    double total = 0;
    ow_fields type, tensor_type;
    while (ow_next_field(value)) {
        if (value->row == OW_ValueInfoProto_name || value->row == OW_ValueInfoProto_doc_string) total += span_size(value);
        if (value->row != OW_ValueInfoProto_type) continue;
        ow_enter(value, &type);
        while (ow_next_field(&type))
            if (type.row == OW_TypeProto_tensor_type && ow_enter(&type, &tensor_type) == OW_OK)
                total += sum_tensor_type(&tensor_type);
    }
    return total;
}

/* Return the checksum of an encoded model, -1 for a damaged model. */
double walk_model(const void *data, size_t size) {
    ow_source source;
    ow_fields model, graph, inner;
    double total = 0;
    ow_open_bytes(&source, data, size);
    ow_root_fields(&model, &source, OW_ModelProto);
    while (ow_next_field(&model)) {
        if (model.row == OW_ModelProto_ir_version) total += (double)(int64_t)model.bits;
        if (model.row != OW_ModelProto_graph) continue;
        ow_enter(&model, &graph);
        while (ow_next_field(&graph)) {
            if (graph.row != OW_GraphProto_node && graph.row != OW_GraphProto_value_info) continue;
            if (ow_enter(&graph, &inner) != OW_OK) break;
            total += graph.row == OW_GraphProto_node ? sum_node(&inner) : sum_value_info(&inner);
        }
    }
    return source.error.code == OW_OK ? total : -1;
}
