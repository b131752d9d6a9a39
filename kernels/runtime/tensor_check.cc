#include "kernels/runtime/tensor_check.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace assay::inline kernels {

absl::Status CheckView(const TensorView& view) {
  const Extents& e = view.extents;
  if (Info(view.dtype).storage_bits == 0) {
    return absl::InvalidArgumentError("tensor's dtype is unspecified; it must be a format");
  }
  if (e.batch < 0 || e.rows < 0 || e.cols < 0) {
    return absl::InvalidArgumentError(absl::StrCat("extents ", e.batch, "x", e.rows, "x", e.cols,
                                                   " are negative; each must be >= 0"));
  }
  if (e.count() == 0) return absl::OkStatus();
  if (e.rows > 1 && e.ld < e.cols) {
    return absl::InvalidArgumentError(absl::StrCat("ld = ", e.ld, " is less than cols = ", e.cols));
  }
  if (e.batch > 1 && e.batch_stride < (e.rows - 1) * e.ld + e.cols) {
    return absl::InvalidArgumentError(absl::StrCat("batch_stride = ", e.batch_stride,
                                                   " is less than a matrix's ",
                                                   (e.rows - 1) * e.ld + e.cols, " elements"));
  }
  if (view.data == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor of ", e.count(), " elements has no data"));
  }
  return absl::OkStatus();
}

absl::Status CheckCopy(const TensorView& src, const TensorView& dst) {
  if (absl::Status s = CheckView(src); !s.ok()) return s;
  if (absl::Status s = CheckView(dst); !s.ok()) return s;
  if (src.dtype != dst.dtype || src.count() != dst.count()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "copy of ", src.count(), " ", std::string(Name(src.dtype)), " elements to ", dst.count(),
        " ", std::string(Name(dst.dtype)), " ones; counts and formats must be the same"));
  }
  return absl::OkStatus();
}

absl::Status CheckRange(const TensorView& view, std::int64_t begin, std::int64_t count) {
  if (absl::Status s = CheckView(view); !s.ok()) return s;
  if (begin < 0 || count < 0 || begin > view.count() - count) {
    return absl::InvalidArgumentError(absl::StrCat("elements [", begin, ", ", begin + count,
                                                   ") are not within the tensor's ", view.count()));
  }
  return absl::OkStatus();
}

}  // namespace assay::kernels
