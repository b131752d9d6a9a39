// Lists the peaks that makers promise in data sheets, to compare measured ceilings with.
//
// The figures are dense, without structured sparsity. If a card is slower with sums in fp32, the
// figure is that with fp32 sums. A model is found by the exact name that its driver reports and by
// its number of compute units. So a card of the same name that is cut down or partitioned gets no
// figure. An unknown model gets none. If the toolkit shows a card as two devices (MI250X), the
// figures are for one device.
#ifndef ASSAY_KERNELS_BENCH_DATA_SHEET_H_
#define ASSAY_KERNELS_BENCH_DATA_SHEET_H_

#include <optional>
#include <span>
#include <string_view>

#include "kernels/bench/ceilings.h"

namespace assay::inline kernels {

struct DataSheet {
  std::string_view source;  // title of the data sheet
  double bytes_per_second;  // of the memory
  std::span<const Ceiling> arithmetic;

  // The rate of a kind. Every memory kind has the rate of the memory. Nothing if the sheet does not
  // give the rate.
  std::optional<double> PerSecond(CeilingKind kind, DType dtype) const;
};

// Finds the sheet of a device whose driver reports the name `model` and `compute_units`
// multiprocessors. nullptr if the table has none.
const DataSheet* FindDataSheet(std::string_view model, int compute_units);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_BENCH_DATA_SHEET_H_
