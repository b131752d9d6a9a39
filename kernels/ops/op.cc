#include "kernels/ops/op.h"

namespace assay {

std::span<const Op* const> AllOps() {
  static const Op* const kOps[] = {&GemmOp(),      &ConvOp(), &AttentionOp(),     &SoftmaxOp(),
                                   &LayerNormOp(), &CopyOp(), &DequantSoftmaxOp()};
  return kOps;
}

const Op* FindOp(std::string_view name) {
  for (const Op* op : AllOps()) {
    if (op->name() == name) return op;
  }
  return nullptr;
}

}  // namespace assay
