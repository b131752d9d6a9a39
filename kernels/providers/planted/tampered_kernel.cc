#include "kernels/providers/planted/tampered_kernel.h"

#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/numerics/convert.h"
#include "kernels/runtime/gpu/error_status.h"
#include "kernels/runtime/gpu/stream_of.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels::planted {
namespace {

using gpu::Change;
using gpu::Tamper;
using gpu::Tile;

constexpr std::int64_t kWord = sizeof(std::uint64_t);  // [bytes] for a kept element
constexpr std::int64_t kTail = 8;                      // [elements] of a row that are not written
constexpr std::int64_t kOverrun = 64;                  // [bytes] written outside the output
constexpr double kScaleError = 1.01;                   // the factor of scale-off
constexpr std::int64_t kRaceOdds = 10;                 // one of this many launches shows the race
constexpr std::int64_t kRareOdds = 100;                // one of this many is rare-launch's
constexpr double kGain = 1 + 1e-4;                     // factors below the bound
constexpr double kSmallGain = 1 + 1e-5;
constexpr double kScaleOfExp = 1 + 1e-6;   // of the argument
constexpr double kWrong = 1 + 0x1p-16;     // the factor of wrong lanes and elements
constexpr std::int64_t kLanes = 32;        // in a group
constexpr int kFlipped = 3;                // bits that bit-flips flips
constexpr std::uint64_t kLastBits = 0x1f;  // if all these bits are set, bit-pattern loses them
constexpr std::uint64_t kLostBit = 0x20;
constexpr std::int64_t kLowBits = 12;  // bits of an fp32 mantissa that low-bit-flip may flip
// [bytes] This distance is beyond all addresses of a process, on the device and on the host.
constexpr std::int64_t kFar = std::int64_t{1} << 47;

enum SiteDraw : std::uint32_t {
  kRowDraw,
  kColumnDraw,
  kBatchDraw,
  kBitDraw,
  kGroupDraw,
  kPhaseDraw,
  kFlipDraw = 100,     // and up: one a bit
  kLaunchDraw = 1000,  // and up: one a launch
};

Tile Whole(const Extents& e) { return {0, 0, 0, e.batch, e.rows, e.cols}; }

absl::Status Described(gpu::ErrorCode code) { return gpu::StatusOf(code, "the launch failed"); }

}  // namespace

TamperedKernel::TamperedKernel(Device& device, std::unique_ptr<Kernel> right, Defect defect,
                               const Site& site, const Extents& output)
    : device_(device),
      right_(std::move(right)),
      defect_(defect),
      site_(site),
      element_({site.Draw(kBatchDraw, output.batch), site.Draw(kRowDraw, output.rows),
                site.Draw(kColumnDraw, output.cols)}) {
  const Tiling tiles(output);
  const std::int64_t down = site.Draw(kRowDraw, tiles.down);
  const std::int64_t across = site.Draw(kColumnDraw, tiles.across);
  tile_ = {element_.batch, down * tiles.rows, across * tiles.cols, 1, tiles.rows, tiles.cols};
  // The neighbour is to the right, or below if there is none to the right.
  next_ = tile_;
  if (tiles.across > 1) {
    next_.col = (across + 1) % tiles.across * tiles.cols;
  } else {
    next_.row = (down + 1) % tiles.down * tiles.rows;
  }
  if (defect == "unwritten-tail") {
    const std::int64_t tail = std::min(kTail, output.cols);
    tile_ = {element_.batch, element_.row, output.cols - tail, 1, 1, tail};
  }
}

absl::Status TamperedKernel::Prepare(const Plan& plan) {
  if (Is("truncating-output")) {
    wide_ = {nullptr, DType::kF32, plan.output.extents};
    return Take(wide_.bytes(), &wide_.data);
  }
  for (int i = 0; i < ChangedOperands(); ++i) {
    const Operand& operand = plan.inputs[static_cast<std::size_t>(i)];
    const TensorView view{nullptr, operand.dtype, operand.extents};
    if (absl::Status s = Take(view.bytes(), &copies_.emplace_back()); !s.ok()) return s;
  }
  if (!NeedsKept()) return absl::OkStatus();
  void* kept = nullptr;
  if (absl::Status s = Take(tile_.count() * kWord, &kept); !s.ok()) return s;
  kept_ = static_cast<std::uint64_t*>(kept);
  const absl::StatusOr<gpu::Stream> stream = gpu::StreamOf(device_);
  if (!stream.ok()) return stream.status();
  return Described(gpu::Set(kept, 0, tile_.count() * kWord, *stream));
}

absl::Status TamperedKernel::Launch(std::span<const TensorView> inputs, const TensorView& output) {
  const absl::StatusOr<gpu::Stream> stream = gpu::StreamOf(device_);
  if (!stream.ok()) return stream.status();
  if (LeavesUnwritten()) {
    const Tamper keep{.change = Change::kKeep, .view = output, .tile = tile_};
    if (absl::Status s = Described(Do(keep, *stream)); !s.ok()) return s;
  }
  std::vector<TensorView> operands(inputs.begin(), inputs.end());
  if (absl::Status s = Described(ChangeOperands(operands, *stream)); !s.ok()) return s;
  const bool cut = Is("truncating-output");
  if (absl::Status s = right_->Launch(operands, cut ? wide_ : output); !s.ok()) return s;
  const int launch = launches_++;
  if (std::optional<Tamper> hidden = Hidden(output.extents, launch)) {
    hidden->view = output;
    return Described(Do(*hidden, *stream));
  }
  return Described(Spoil(inputs, output, launch, *stream));
}

bool TamperedKernel::IsDrawn(int launch, std::int64_t odds) const {
  return site_.Draw(kLaunchDraw + static_cast<std::uint32_t>(launch), odds) == 0;
}

bool TamperedKernel::LeavesUnwritten() const {
  return Is("unwritten-tail") || Is("unwritten-tile");
}

bool TamperedKernel::NeedsKept() const {
  return LeavesUnwritten() || Is("stale-buffer") || Is("hang");
}

int TamperedKernel::ChangedOperands() const {
  if (Is("tf32-inputs") || Is("two-bf16-inputs")) return 2;
  return Is("bit-pattern") || Is("exp-scale-1e-6") ? 1 : 0;
}

absl::Status TamperedKernel::Take(std::int64_t bytes, void** data) {
  const absl::StatusOr<Block> block = device_.arena().Allocate(bytes, /*guarded=*/false);
  if (!block.ok()) return block.status();
  *data = block->data;
  return absl::OkStatus();
}

gpu::ErrorCode TamperedKernel::Do(Tamper tamper, gpu::Stream stream) const {
  tamper.other = next_;
  tamper.kept = kept_;
  return gpu::LaunchTamper(tamper, stream);
}

gpu::ErrorCode TamperedKernel::ChangeOperands(std::span<TensorView> operands,
                                              gpu::Stream stream) const {
  Tamper change{.change = Change::kPass, .through = DType::kTF32};
  if (Is("two-bf16-inputs")) {
    change = {.change = Change::kPass, .through = DType::kBF16, .parts = 2};
  }
  if (Is("bit-pattern")) change = {.change = Change::kClear, .code = kLastBits};
  if (Is("exp-scale-1e-6")) change = {.change = Change::kScale, .factor = kScaleOfExp};
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    TensorView& operand = operands[i];
    const gpu::ErrorCode copied =
        gpu::CopyOnDevice(copies_[i], operand.data, operand.bytes(), stream);
    if (copied != gpu::kOk) return copied;
    operand.data = copies_[i];
    change.view = operand;
    change.tile = Whole(operand.extents);
    if (const gpu::ErrorCode made = Do(change, stream); made != gpu::kOk) return made;
  }
  return gpu::kOk;
}

std::optional<Tamper> TamperedKernel::Hidden(const Extents& output, int launch) const {
  const auto factor = [&](double f) {
    return Tamper{.change = Change::kScale, .tile = Whole(output), .factor = f};
  };
  const auto in_period = [this](Tamper tamper, std::int64_t period) {
    tamper.period = period;
    tamper.phase = site_.Draw(kPhaseDraw, period);
    return tamper;
  };
  const auto bit = [this](std::uint32_t draw) {
    return std::uint64_t{1} << site_.Draw(draw, kLowBits);
  };
  if (Is("gain-1e-4")) return factor(kGain);
  if (Is("gain-1e-5")) return factor(kSmallGain);
  if (Is("sample-variance")) {
    // Variances over n - 1 are larger by n/(n - 1). The rows become smaller by the root of it, but
    // for an eps that is far below the variance.
    const auto n = static_cast<double>(output.cols);
    return factor(std::sqrt((n - 1) / n));
  }
  if (Is("wrong-lanes")) {
    Tamper lanes = factor(kWrong);
    const std::int64_t col = kLanes * site_.Draw(kGroupDraw, (output.cols + kLanes - 1) / kLanes);
    lanes.tile = {element_.batch, element_.row, col, 1, 1, std::min(kLanes, output.cols - col)};
    return lanes;
  }
  if (Is("every-4th")) return in_period(factor(kWrong), 4);
  if (Is("every-128th")) return in_period(factor(kWrong), 128);
  if (Is("stuck-bit")) {
    return in_period({.change = Change::kClear, .tile = Whole(output), .code = bit(kBitDraw)},
                     kLanes);
  }
  if (Is("bit-flips")) {
    Tamper flips{.change = Change::kFlip, .tile = element_};
    for (std::uint32_t draw = kFlipDraw; std::popcount(flips.code) < kFlipped; ++draw) {
      flips.code |= bit(draw);
    }
    return flips;
  }
  if (Is("rare-launch") && IsDrawn(launch, kRareOdds)) {
    Tamper wrong = factor(kWrong);
    wrong.tile = element_;
    return wrong;
  }
  return std::nullopt;
}

gpu::ErrorCode TamperedKernel::Spoil(std::span<const TensorView> inputs, const TensorView& output,
                                     int launch, gpu::Stream stream) const {
  const Extents& e = output.extents;
  const DType dtype = output.dtype;
  // Changes of the drawn tile, of the drawn element, and of the whole output.
  const auto tile = [&](Change change) {
    return Do({.change = change, .view = output, .tile = tile_}, stream);
  };
  const auto element = [&](Change change, std::uint64_t code) {
    return Do({.change = change, .view = output, .tile = element_, .code = code}, stream);
  };
  const auto all = [&](Tamper tamper) {
    tamper.view = output;
    tamper.tile = Whole(e);
    return Do(tamper, stream);
  };
  const auto code = [&](double v) { return RoundToFormat(v, dtype); };
  if (Is("wrong-tile")) return tile(Change::kTake);
  if (Is("transposed-tile")) return tile(Change::kTranspose);
  if (Is("swapped-rows")) return SwapRows(output, stream);
  if (Is("stale-buffer")) return tile(Change::kExchange);
  if (Is("zero-output")) return all({.change = Change::kSet, .code = code(0.0)});
  if (Is("constant-output")) return all({.change = Change::kSpread});
  if (Is("scale-off")) return all({.change = Change::kScale, .factor = kScaleError});
  if (Is("fp16-output")) return all({.change = Change::kPass, .through = DType::kF16});
  if (Is("truncating-output")) {
    return all({.change = Change::kCut, .wide = wide_.as<const float>()});
  }
  if (Is("bit-flip")) return element(Change::kFlip, 2);
  if (Is("low-bit-flip")) {
    return element(Change::kFlip, std::uint64_t{1} << site_.Draw(kBitDraw, kLowBits));
  }
  if (Is("lost-bits")) return all({.change = Change::kFlip, .code = kLostBit});
  if (Is("nan")) return element(Change::kSet, code(std::nan("")));
  if (Is("inf")) return element(Change::kSet, code(std::numeric_limits<double>::infinity()));
  if (Is("nan-in-tail")) {
    const std::int64_t tail = e.cols % Tiling::kSide;
    return Do({.change = Change::kSet,
               .view = output,
               .tile = {element_.batch, element_.row, e.cols - tail, 1, 1, tail},
               .code = code(std::nan(""))},
              stream);
  }
  if (LeavesUnwritten()) return tile(Change::kPutBack);
  if (Is("writes-padding")) {
    return Do({.change = Change::kSet,
               .view = output,
               .tile = {element_.batch, std::min(element_.row, e.rows - 2), e.cols},
               .code = code(1.0)},
              stream);
  }
  // Only in the first launch, because two flips would cancel.
  if (Is("changes-input") && launch == 0) {
    return Do({.change = Change::kFlip, .view = inputs[0], .tile = Tile{}, .code = 1}, stream);
  }
  if (Is("nondeterministic") && launch % 2 == 1) return element(Change::kFlip, 1);
  if (Is("race") && IsDrawn(launch, kRaceOdds)) return element(Change::kFlip, 1);
  return SpoilOutside(output, stream);
}

// Defects that reach outside the output, or never end.
gpu::ErrorCode TamperedKernel::SpoilOutside(const TensorView& output, gpu::Stream stream) const {
  auto* first = output.as<unsigned char>();
  if (Is("past-the-end")) {
    return gpu::LaunchOverwrite(first + output.bytes(), kOverrun, stream);
  }
  if (Is("before-the-start")) return gpu::LaunchOverwrite(first - kOverrun, kOverrun, stream);
  if (Is("far-past-the-end")) {
    return gpu::LaunchOverwrite(first + kFar, kOverrun, stream);
  }
  if (Is("crash")) return gpu::LaunchOverwrite(nullptr, 1, stream);
  if (Is("hang")) {
    return gpu::LaunchHang(reinterpret_cast<const unsigned long long*>(kept_), stream);
  }
  return gpu::kOk;
}

// Exchanges the drawn row with the next one; after the last row comes the first.
gpu::ErrorCode TamperedKernel::SwapRows(const TensorView& output, gpu::Stream stream) const {
  const Extents& e = output.extents;
  Tamper swap{.change = Change::kSwap, .view = output};
  swap.tile = {element_.batch, element_.row, 0, 1, 1, e.cols};
  swap.other = swap.tile;
  swap.other.row = (element_.row + 1) % e.rows;
  return gpu::LaunchTamper(swap, stream);
}

}  // namespace assay::kernels::planted
