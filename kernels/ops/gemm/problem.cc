#include "kernels/ops/gemm/problem.h"

#include <cmath>

#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr Field<GemmProblem> kFields[] = {
    {"m", &GemmProblem::m},
    {"n", &GemmProblem::n},
    {"k", &GemmProblem::k},
    {"batch", &GemmProblem::batch},
    {"trans_a", &GemmProblem::trans_a},
    {"trans_b", &GemmProblem::trans_b},
    {"alpha", &GemmProblem::alpha},
    {"beta", &GemmProblem::beta},
    {"lda", &GemmProblem::lda},
    {"ldb", &GemmProblem::ldb},
    {"ldc", &GemmProblem::ldc},
    {"stride_a", &GemmProblem::stride_a},
    {"stride_b", &GemmProblem::stride_b},
    {"stride_c", &GemmProblem::stride_c},
    {"scale_a", &GemmProblem::scale_a},
    {"scale_b", &GemmProblem::scale_b},
    {"channel_scale", &GemmProblem::channel_scale},
    {"bias", &GemmProblem::bias},
    {"activation", &GemmProblem::activation},
};

// One stored matrix: its extents, and the fields its layout comes from.
struct Stored {
  std::string_view name;
  std::int64_t rows, cols, ld, stride;
  std::string_view ld_field, stride_field, size_field;
};

void CheckStored(const Stored& s, std::int64_t batch, std::vector<FieldError>& errors) {
  if (s.rows < 1 || s.cols < 1 || batch < 1) return;
  if (s.ld != 0 && (s.ld < s.cols || s.ld > kMaxExtent)) {
    errors.push_back({std::string(s.ld_field),
                      Cat("must be 0 (tight) or from ", s.cols, ", the stored columns of ", s.name,
                          ", to ", kMaxExtent, ", got ", s.ld)});
    return;
  }
  const std::int64_t tight = SaturatingMul(s.rows, s.ld == 0 ? s.cols : s.ld);
  if (s.stride != 0 && s.stride < tight) {
    errors.push_back(
        {std::string(s.stride_field), Cat("must be 0 (tight) or at least ", tight,
                                          ", the size of one ", s.name, ", got ", s.stride)});
    return;
  }
  const bool strided = s.stride > tight;
  CheckCount(strided ? s.stride_field : s.size_field, s.name, {batch, strided ? s.stride : tight},
             errors);
}

void CheckFinite(std::string_view field, double value, std::vector<FieldError>& errors) {
  if (!std::isfinite(value)) {
    errors.push_back({std::string(field), Cat("must be a finite number, got ", value)});
  }
}

}  // namespace

std::span<const Field<GemmProblem>> GemmProblem::Fields() { return kFields; }

std::vector<FieldError> GemmProblem::Check() const {
  std::vector<FieldError> errors;
  CheckRange("m", m, 1, kMaxExtent, errors);
  CheckRange("n", n, 1, kMaxExtent, errors);
  CheckRange("k", k, 1, kMaxExtent, errors);
  CheckRange("batch", batch, 1, kMaxExtent, errors);
  CheckFinite("alpha", alpha, errors);
  CheckFinite("beta", beta, errors);
  CheckFinite("scale_a", scale_a, errors);
  CheckFinite("scale_b", scale_b, errors);
  if (activation != "none" && activation != "relu" && activation != "gelu" &&
      activation != "gelu_tanh") {
    errors.push_back(
        {"activation", Cat("must be none, relu, gelu or gelu_tanh, got \"", activation, "\"")});
  }
  if (!errors.empty()) return errors;
  CheckStored({"A", trans_a ? k : m, trans_a ? m : k, lda, stride_a, "lda", "stride_a", "k"}, batch,
              errors);
  CheckStored({"B", trans_b ? n : k, trans_b ? k : n, ldb, stride_b, "ldb", "stride_b", "k"}, batch,
              errors);
  CheckStored({"D", m, n, ldc, stride_c, "ldc", "stride_c", "m"}, batch, errors);
  return errors;
}

std::string GemmProblem::Describe() const {
  std::string text = Cat(m, "x", n, "x", k);
  if (trans_a || trans_b) Append(&text, " ", trans_a ? "t" : "n", trans_b ? "t" : "n");
  if (batch != 1) Append(&text, " batch ", batch);
  if (alpha != 1.0) Append(&text, " alpha ", alpha);
  if (beta != 0.0) Append(&text, " beta ", beta);
  if (lda != 0) Append(&text, " lda ", lda);
  if (ldb != 0) Append(&text, " ldb ", ldb);
  if (ldc != 0) Append(&text, " ldc ", ldc);
  if (stride_a != 0) Append(&text, " stride-a ", stride_a);
  if (stride_b != 0) Append(&text, " stride-b ", stride_b);
  if (stride_c != 0) Append(&text, " stride-c ", stride_c);
  if (scale_a != 1.0) Append(&text, " scale-a ", scale_a);
  if (scale_b != 1.0) Append(&text, " scale-b ", scale_b);
  if (channel_scale) Append(&text, " channel-scale");
  if (bias) Append(&text, " bias");
  if (activation != "none") Append(&text, " ", activation);
  return text;
}

}  // namespace assay::kernels
