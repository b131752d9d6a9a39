// Exact cases of reductions.
//
//   exact-integers     sum: whole numbers from 1 to 4, so few that every sum of them is exact in
//                      the accumulator in any order. The one right result is the rounded sum.
//   exact-signs        sum, if its length is such that the output's rounding would hide a lost
//                      element of the case above: +1 and -1, whose sums are small. A sum may lose
//                      as many +1 as -1, so there are 16 slices at least, if x has two axes or
//                      more.
//   exact-significand  sum of floats of 16 bits or more: each slice has one element that is not 0,
//                      and it uses its last bits. The sum is this element, so that a kernel that
//                      rounds elements to fewer bits shows.
//   first-column, last-column
//                      max and argmax: the first or the last element is the largest.
//   close-integers     max and argmax: the largest whole numbers that differ in their last bit.
//   negative-integers  max and argmax: whole numbers from -8 to -1, in which the largest is there
//                      many times and is below 0. A kernel that begins at 0 shows, and one that
//                      takes another index than the first.
#ifndef ASSAY_KERNELS_OPS_REDUCE_REDUCE_PROBES_H_
#define ASSAY_KERNELS_OPS_REDUCE_REDUCE_PROBES_H_

#include <vector>

#include "kernels/ops/case.h"
#include "kernels/ops/op.h"

namespace assay {

// Those of the case's kind.
std::vector<KernelProbe> ReduceProbes(const Case& c);

// The data of exact-significand. `in_rows`: slices are rows of x, else columns.
void SetReduceSignificands(bool in_rows, Plan& plan);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_REDUCE_REDUCE_PROBES_H_
