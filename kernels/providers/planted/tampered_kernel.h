// A correct GPU kernel with a defect that is made on the device around each launch. The constructor
// gets the defect and its site. It works the same way for every operator.
//
// It owns the correct kernel and takes workspace from the arena in Prepare. For one thread.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_TAMPERED_KERNEL_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_TAMPERED_KERNEL_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "kernels/providers/planted/defect.h"
#include "kernels/providers/planted/site.h"
#include "kernels/providers/planted/tamper.h"
#include "kernels/providers/provider.h"

namespace assay::inline kernels::planted {

inline constexpr std::string_view kGpuDefects[] = {
    "correct",
    // The kernel solves another problem than the case's.
    "dropped-k", "dropped-bias", "dropped-mask", "missing-eps", "wrong-eps", "scale-off-1e-5",
    // Values.
    "wrong-tile", "transposed-tile", "swapped-rows", "stale-buffer", "zero-output",
    "constant-output", "scale-off", "fp16-output", "truncating-output", "bit-flip", "low-bit-flip",
    "lost-bits", "nan", "inf", "nan-in-tail",
    // Values whose errors hide below the bound of each element.
    "gain-1e-4", "gain-1e-5", "sample-variance", "wrong-lanes", "every-4th", "every-128th",
    "stuck-bit", "bit-flips",
    // Operands as the kernel sees them.
    "tf32-inputs", "two-bf16-inputs", "bit-pattern", "exp-scale-1e-6",
    // Memory.
    "unwritten-tail", "unwritten-tile", "past-the-end", "before-the-start", "writes-padding",
    "changes-input",
    // Launches.
    "nondeterministic", "race", "rare-launch",
    // Defects that end the context or the process.
    "crash", "far-past-the-end", "hang"};
using Defect = NamedDefect<kGpuDefects>;
inline constexpr Alias<Defect> kGpuAliases[] = {
    {"long-fp16-output", "fp16-output"},
    {"long-tf32-inputs", "tf32-inputs"},
    {"tf32-on-positive", "tf32-inputs"},
    {"sample-variance-2048", "sample-variance"},
};

// The whole tiles of an output. If the output has fewer than kSide rows or columns, so has a tile.
struct Tiling {
  static constexpr std::int64_t kSide = 16;

  explicit Tiling(const Extents& e)
      : rows(std::min(kSide, e.rows)),
        cols(std::min(kSide, e.cols)),
        down(e.rows / rows),
        across(e.cols / cols) {}
  std::int64_t rows, cols;    // of a tile
  std::int64_t down, across;  // tiles
};

class TamperedKernel final : public Kernel {
 public:
  TamperedKernel(Device& device, std::unique_ptr<Kernel> right, Defect defect, const Site& site,
                 const Extents& output);

  // Takes workspace. Call it once, before the first launch.
  absl::Status Prepare(const Plan& plan);

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override;

  std::string implementation() const override { return right_->implementation(); }
  double intermediate_roundoff() const override { return right_->intermediate_roundoff(); }
  double operand_roundoff() const override { return right_->operand_roundoff(); }
  bool flushes_subnormals() const override { return right_->flushes_subnormals(); }
  Accumulator accumulator() const override { return right_->accumulator(); }

 private:
  bool Is(Defect defect) const { return defect_ == defect; }
  bool LeavesUnwritten() const;
  bool NeedsKept() const;
  // How many of the operands the kernel sees changed, the first ones.
  int ChangedOperands() const;
  absl::Status Take(std::int64_t bytes, void** data);

  // Puts changed copies in the place of operands, before the correct kernel is enqueued.
  gpu::ErrorCode ChangeOperands(std::span<TensorView> operands, gpu::Stream stream) const;
  // Whether this launch is one of those that are wrong, if one of `odds` is.
  bool IsDrawn(int launch, std::int64_t odds) const;
  // The change of the output that hides below the bound of each element, if the launch has one.
  std::optional<gpu::Tamper> Hidden(const Extents& output, int launch) const;
  // Makes the defect after the correct kernel was enqueued.
  gpu::ErrorCode Spoil(std::span<const TensorView> inputs, const TensorView& output, int launch,
                       gpu::Stream stream) const;
  gpu::ErrorCode SpoilOutside(const TensorView& output, gpu::Stream stream) const;
  gpu::ErrorCode Do(gpu::Tamper tamper, gpu::Stream stream) const;
  gpu::ErrorCode SwapRows(const TensorView& output, gpu::Stream stream) const;

  Device& device_;
  const std::unique_ptr<Kernel> right_;
  const Defect defect_;
  const Site site_;
  const gpu::Tile element_;  // the element of the defect
  gpu::Tile tile_;           // the tile of the defect; next_ is its neighbour
  gpu::Tile next_;
  std::uint64_t* kept_ = nullptr;  // a word for each element of the tile; 0 at first
  TensorView wide_;                // the output before it is cut
  std::vector<void*> copies_;      // memory for the operands that are changed
  int launches_ = 0;
};

}  // namespace assay::kernels::planted

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_TAMPERED_KERNEL_H_
