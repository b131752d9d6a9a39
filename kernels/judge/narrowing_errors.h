// Computes the errors that narrower inputs make in sampled output elements: for each narrowing of
// the table, d = Σ(â·b̂ − a·b), where â is the operand rounded to the narrower format.
//
//   left   d with A rounded alone:   factor·Σ(â − a)·b
//   right  d with B rounded alone:   factor·Σa·(b̂ − b)
//   With both rounded, d = left + right. The products (â − a)·(b̂ − b) are left out: they are at
//   most 2^-8 of d.
//   low    factor·Σ a₂·b₂, where a ≈ a₁ + a₂ in two parts of bf16. A kernel that leaves out the
//          product of the low parts has the error left + right − low.
//
// The rounded differences are exact. Sums are fp32 in parts of 256 terms, and FP64 over the parts,
// so d is right to about 1e-6 of itself. Vectors are scaled by powers of two, so no data overflow.
// Work: 2·(narrowings) + 1 fp32 products for each term of each element, with SIMD, on all cores.
#ifndef ASSAY_KERNELS_JUDGE_NARROWING_ERRORS_H_
#define ASSAY_KERNELS_JUDGE_NARROWING_ERRORS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/products.h"

namespace assay::inline kernels {

// How a value becomes narrower.
enum class Narrower : std::uint8_t {
  kF32,
  kTF32,
  kTF32Truncated,
  kF16,
  kBF16,
  kBF16Truncated,
  kBF16x2,  // the sum of two bf16 numbers: the nearest one, and the nearest one to the rest
};

struct NarrowingInfo {
  Narrower narrower;
  std::string_view name;  // "TF32"
  std::string_view how;   // ", truncated": what follows the word "inputs"
  int significand_bits;   // with the implicit bit
};

// The simplest first.
inline constexpr NarrowingInfo kNarrowings[] = {
    {Narrower::kF32, "fp32", "", 24},
    {Narrower::kTF32, "TF32", "", 11},
    {Narrower::kTF32Truncated, "TF32", ", truncated", 11},
    {Narrower::kF16, "fp16", "", 11},
    {Narrower::kBF16, "bf16", "", 8},
    {Narrower::kBF16Truncated, "bf16", ", truncated", 8},
    {Narrower::kBF16x2, "bf16x2", "", 16},
};

// The narrowings that have fewer significant bits than the format, in the order of the table. None
// for integers.
std::vector<NarrowingInfo> NarrowingsOf(DType format);

struct NarrowingErrors {
  std::vector<NarrowingInfo> narrowings;
  std::vector<double> left, right;  // [narrowings, elements]
  std::vector<double> low;          // [elements]; empty if kBF16x2 is not among the narrowings
  std::vector<double> scale;  // |factor|·√(Σa²·Σb²), [elements]: how large products are
};

// An element with an infinity or NaN among its inputs gets NaN. An element that a narrowing
// overflows gets an infinity or NaN there.
NarrowingErrors ComputeNarrowingErrors(const SampledProducts& products);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_NARROWING_ERRORS_H_
