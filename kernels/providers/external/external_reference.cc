#include "kernels/providers/external/external_reference.h"

#include <cstddef>
#include <cstring>

#include "kernels/runtime/kernel_failure.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// The bytes of one result, which come in pieces.
struct Arriving {
  std::span<double> to;
  std::size_t received = 0;

  std::size_t expected() const { return to.size_bytes(); }
  bool whole() const { return received == expected(); }
  bool Add(std::string_view bytes) {
    if (bytes.size() > expected() - received) return false;
    std::memcpy(reinterpret_cast<char*>(to.data()) + received, bytes.data(), bytes.size());
    received += bytes.size();
    return true;
  }
};

}  // namespace

absl::Status ExternalReference::Prepare(const Case&, const Plan& plan,
                                        std::span<const TensorView> inputs) {
  first_ = static_cast<int>(plan.inputs.size()) + 1;
  return elsewhere_.Bring(inputs, device_);
}

absl::Status ExternalReference::Run(std::span<double> value, std::span<double> magnitude) {
  if (absl::Status s = elsewhere_.LaunchReference(); !s.ok()) return OfReference(s);
  Arriving arriving[] = {{value}, {magnitude}};
  absl::Status wrong;  // found before the end: what is on its way is taken all the same
  for (;;) {
    const absl::StatusOr<Elsewhere::Piece> piece = elsewhere_.Await();
    if (!piece.ok()) return wrong.ok() ? OfReference(piece.status()) : wrong;
    if (piece->end) break;
    if (!wrong.ok()) continue;
    const int which = piece->tensor - first_;
    if (which != 0 && which != 1) {
      wrong = Wrong(KernelError::kUnusable,
                    Cat("has tensor ", first_, " for its result and ", first_ + 1,
                        " for the magnitudes, got bytes of ", piece->tensor));
    } else if (!arriving[which].Add(piece->bytes)) {
      wrong =
          Wrong(KernelError::kUnusable, Cat("has ", value.size_bytes(), " bytes of FP64 in tensor ",
                                            piece->tensor, ", got more"));
    }
  }
  if (!wrong.ok()) return wrong;
  if (arriving[0].whole() && (arriving[1].received == 0 || arriving[1].whole())) return {};
  return Wrong(KernelError::kUnusable,
               Cat("has ", value.size_bytes(), " bytes of FP64, got ", arriving[0].received,
                   " of its result and ", arriving[1].received, " of the magnitudes"));
}

}  // namespace assay::kernels
