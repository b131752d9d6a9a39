// The algorithms whose products the experiment measures: right ones, and defects.
//
// An algorithm is a way to sum the products of one row of A and the 32 columns of a panel of B, and
// what it does to the operands before and to the sum after. Pure; any number of threads.
#ifndef ASSAY_TESTS_EXPERIMENTS_SUMS_H_
#define ASSAY_TESTS_EXPERIMENTS_SUMS_H_

#include <cstdint>
#include <span>

#include "tests/experiments/lanes.h"

namespace assay::experiment {

enum class Unit : std::uint8_t {
  kNearest,     // fp32 additions, to nearest; any input format
  kTruncating,  // matrix unit for 16-bit inputs: 24 bits, towards zero
  kNarrow,      // matrix unit for 8-bit inputs: 14 bits, towards zero
};

// `a` has k values, `b` k rows of kPanel. k is a multiple of 16.
using Sum = F (*)(const float* a, const float* b, std::int64_t k);

struct Algorithm {
  const char* name;
  Unit unit;
  Sum sum;
  std::int64_t promoted = 0;  // products between promotions to fp32; 0: never
  bool right = true;
  float (*operand)(float) = nullptr;  // what a defect makes of each operand
  float (*result)(float) = nullptr;   // and of each output
  bool emulated = false;              // a judge can run it on a sample, to see what order does
};

// Of the input formats that each unit takes.
std::span<const Algorithm> RightAlgorithms();
// Those of inputs in fp32, and those of narrower inputs.
std::span<const Algorithm> DefectsOfFP32();
std::span<const Algorithm> DefectsOf16Bits();

}  // namespace assay::experiment

#endif  // ASSAY_TESTS_EXPERIMENTS_SUMS_H_
