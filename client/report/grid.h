// Shows elements of a tensor as rows and columns.
#ifndef ASSAY_CLIENT_REPORT_GRID_H_
#define ASSAY_CLIENT_REPORT_GRID_H_

#include <cstddef>
#include <string>

#include "assay/v1/case.pb.h"

namespace assay::client {

// A heading, then the last axis to the right and the one before it downwards, both with
// their indices in the tensor; for more axes one such table each, under its coordinates.
// `bits` shows raw bits where there are some. Columns that do not fit into `width` (0:
// unlimited) go below. Every line ends with a newline.
std::string SliceGrid(const v1::Slice& slice, bool bits, std::size_t width);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_GRID_H_
