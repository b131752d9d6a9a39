// What makers' data sheets promise of a device: peaks to set measured ceilings beside.
//
// Dense figures, without structured sparsity, with sums in fp32 where a card is slower so.
// A model is known by the exact name its driver gives it and by its number of compute
// units: the same name on a card cut down, partitioned or sold under it gets no figure. An
// unknown model has none. Where the toolkit shows a card as two devices (MI250X), the
// figures are one device's.
#ifndef ASSAY_KERNELS_BENCH_DATA_SHEET_H_
#define ASSAY_KERNELS_BENCH_DATA_SHEET_H_

#include <optional>
#include <span>
#include <string_view>

#include "kernels/bench/ceilings.h"

namespace assay {

struct DataSheet {
  std::string_view source;  // title of the data sheet
  double bytes_per_second;  // of its memory
  std::span<const Ceiling> arithmetic;

  // The memory's for every memory kind; nothing where the sheet does not say.
  std::optional<double> PerSecond(CeilingKind kind, DType dtype) const;
};

// The sheet of a device that calls itself `model` and has `compute_units`
// multiprocessors; nullptr where the table has none.
const DataSheet* FindDataSheet(std::string_view model, int compute_units);

}  // namespace assay

#endif  // ASSAY_KERNELS_BENCH_DATA_SHEET_H_
