#include "kernels/validate/host_inputs.h"

#include "kernels/numerics/generate.h"

namespace assay {

void RegeneratedInputs::Read(int operand, std::int64_t begin, std::int64_t count,
                             double* out) const {
  const Operand& o = plan_.inputs[static_cast<std::size_t>(operand)];
  Generator generator(o.pattern, seed_, static_cast<std::uint32_t>(operand), /*epoch=*/0,
                      o.extents.rows, o.extents.cols, o.dtype);
  for (std::int64_t i = 0; i < count; ++i) out[i] = generator.Value(begin + i);
}

}  // namespace assay
