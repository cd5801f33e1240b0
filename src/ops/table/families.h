// One function per family file; ops/table/all.cpp lists them.
#pragma once

#include <span>

#include "ops/table/op.h"

namespace finity {

std::span<const OpDef> unary_ops();
std::span<const OpDef> special_ops();
std::span<const OpDef> gradient_ops();
std::span<const OpDef> window_gradient_ops();
std::span<const OpDef> activation_ops();
std::span<const OpDef> binary_ops();
std::span<const OpDef> division_ops();
std::span<const OpDef> compare_ops();
std::span<const OpDef> cast_ops();
std::span<const OpDef> variadic_ops();
std::span<const OpDef> reduce_ops();
std::span<const OpDef> axis_ops();
std::span<const OpDef> softmax_ops();
std::span<const OpDef> loss_ops();
std::span<const OpDef> norm_ops();
std::span<const OpDef> channel_norm_ops();
std::span<const OpDef> dropout_ops();
std::span<const OpDef> linear_ops();
std::span<const OpDef> einsum_ops();
std::span<const OpDef> quantize_ops();
std::span<const OpDef> quantized_linear_ops();
std::span<const OpDef> qlinear_ops();
std::span<const OpDef> conv_ops();
std::span<const OpDef> deform_conv_ops();
std::span<const OpDef> conv_transpose_ops();
std::span<const OpDef> pool_ops();
std::span<const OpDef> roi_ops();
std::span<const OpDef> layout_ops();
std::span<const OpDef> concat_ops();
std::span<const OpDef> slice_ops();
std::span<const OpDef> pad_ops();
std::span<const OpDef> rearrange_ops();
std::span<const OpDef> select_ops();
std::span<const OpDef> index_ops();
std::span<const OpDef> scatter_ops();
std::span<const OpDef> stitch_ops();
std::span<const OpDef> shape_ops();
std::span<const OpDef> constant_ops();
std::span<const OpDef> resize_ops();
std::span<const OpDef> grid_ops();
std::span<const OpDef> recurrent_ops();
std::span<const OpDef> attention_ops();
std::span<const OpDef> microsoft_ops();
std::span<const OpDef> microsoft_norm_ops();
std::span<const OpDef> microsoft_linear_ops();
std::span<const OpDef> microsoft_block_ops();
std::span<const OpDef> microsoft_attention_ops();
std::span<const OpDef> microsoft_cache_ops();
std::span<const OpDef> microsoft_recurrent_ops();
std::span<const OpDef> microsoft_search_ops();
std::span<const OpDef> flow_ops();
std::span<const OpDef> scan_ops();
std::span<const OpDef> sequence_ops();
std::span<const OpDef> array_ops();
std::span<const OpDef> string_ops();
std::span<const OpDef> tfidf_ops();
std::span<const OpDef> signal_ops();
std::span<const OpDef> random_ops();
std::span<const OpDef> detection_ops();
std::span<const OpDef> training_ops();
std::span<const OpDef> ml_ops();
std::span<const OpDef> ml_label_ops();
std::span<const OpDef> ml_linear_ops();
std::span<const OpDef> ml_svm_ops();
std::span<const OpDef> ml_tree_ops();
std::span<const OpDef> legacy_ops();

}  // namespace finity
