// Exact cases of reductions.
//
//   exact-integers     sum: whole numbers from 1 to 4, so few that every sum of them is exact in
//                      the accumulator in any order. The one right result is the rounded sum.
//                      Of int8 they are -128 to -64, whose sums int32 holds: a kernel that sums in
//                      16 bits shows, and one that takes -128 for -127.
//   exact-signs        sum of floats: a power of two of either sign, so that sums have few digits.
//                      It is as large as possible without an overflow of a sum: a kernel that
//                      clips elements shows. If the sum is so long that the output's rounding would
//                      hide a lost element of the case above, that shows here. A sum may lose as
//                      many positive numbers as negative ones, so there are 16 slices at least, if
//                      x has two axes or more. A kernel of the caller's, which may be made for its
//                      extents, has them only where the case above hides something.
//   exact-significand  sum of floats of 16 bits or more: each slice has one element that is not 0,
//                      and it uses its last bits. The sum is this element, so that a kernel that
//                      rounds elements to fewer bits shows. The element is near 0: a kernel that
//                      takes small numbers for 0 shows.
//   nan                sum of floats of 16 bits or more: each row of x has a NaN. A slice with one
//                      has the sum NaN, and no other slice has. The bound judges.
//   each-element       max and argmax: one element of each slice is above 0 and all others are 0,
//                      in so many slices that it is each element once, if slices are short enough.
//                      A kernel that leaves out any element shows, and one that takes small numbers
//                      for 0.
//   far-below-0        max and argmax: all elements are among the lowest numbers of the format. A
//                      kernel that begins at a number of its own, such as -1e4, shows.
//   first-column, last-column, first-row, last-row
//                      max and argmax of longer slices, and of a user's kernel: the first or the
//                      last element is the largest. A row if slices are columns. Only a user's
//                      kernel has first-row.
//   close-integers     max and argmax: numbers near the largest of the format that differ in their
//                      last bit. A kernel that compares fewer bits shows, and one that clips.
//   negative-integers  max and argmax: whole numbers from -8 to -1, in which the largest is there
//                      many times and is below 0. A kernel that begins at 0 shows, and one that
//                      takes another index than the first.
#ifndef ASSAY_KERNELS_OPS_REDUCE_REDUCE_PROBES_H_
#define ASSAY_KERNELS_OPS_REDUCE_REDUCE_PROBES_H_

#include <vector>

#include "kernels/ops/case.h"
#include "kernels/ops/op.h"

namespace assay::inline kernels {

// Those of the case's kind.
std::vector<KernelProbe> ReduceProbes(const Case& c, const Plan& plan);

// The data of exact-significand and each-element: one element of a slice is not 0, and is smaller
// than fp16 holds if the formats do. `in_rows`: slices are rows of x, else columns.
void SetReduceSignificands(bool in_rows, Plan& plan);

// The data of first-row and last-row: the number of its `one-large` in that row of each matrix.
void SetRowOfOnes(Plan& plan);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_REDUCE_REDUCE_PROBES_H_
