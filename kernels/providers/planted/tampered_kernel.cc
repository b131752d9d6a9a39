#include "kernels/providers/planted/tampered_kernel.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/numerics/convert.h"
#include "kernels/runtime/gpu/error_status.h"
#include "kernels/runtime/gpu/stream_of.h"
#include "kernels/text/cat.h"

namespace assay::planted {
namespace {

using gpu::Change;
using gpu::Tamper;
using gpu::Tile;

constexpr std::int64_t kWord = sizeof(std::uint64_t);  // [bytes] for a kept element
constexpr std::int64_t kTail = 8;                      // [elements] of a row that are not written
constexpr std::int64_t kOverrun = 64;                  // [bytes] written outside the output
constexpr double kScaleError = 1.01;                   // the factor of scale-off
constexpr std::int64_t kRaceOdds = 10;                 // one of this many launches shows the race
constexpr std::uint64_t kLostBit = 0x20;
constexpr std::int64_t kLowBits = 12;  // bits of an fp32 mantissa that low-bit-flip may flip
// [bytes] This distance is beyond all addresses of a process, on the device and on the host.
constexpr std::uintptr_t kFar = std::uintptr_t{1} << 47;

enum SiteDraw : std::uint32_t {
  kRowDraw,
  kColumnDraw,
  kBatchDraw,
  kBitDraw,
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
  if (defect == Defect::kUnwrittenTail) {
    const std::int64_t tail = std::min(kTail, output.cols);
    tile_ = {element_.batch, element_.row, output.cols - tail, 1, 1, tail};
  }
}

absl::Status TamperedKernel::Prepare(const Plan& plan) {
  if (defect_ == Defect::kTruncatingOutput) {
    wide_ = {nullptr, DType::kF32, plan.output.extents};
    return Take(wide_.bytes(), &wide_.data);
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
  const bool cut = defect_ == Defect::kTruncatingOutput;
  if (absl::Status s = right_->Launch(inputs, cut ? wide_ : output); !s.ok()) return s;
  return Described(Spoil(inputs, output, launches_++, *stream));
}

bool TamperedKernel::LeavesUnwritten() const {
  return defect_ == Defect::kUnwrittenTail || defect_ == Defect::kUnwrittenTile;
}

bool TamperedKernel::NeedsKept() const {
  return LeavesUnwritten() || defect_ == Defect::kStaleBuffer || defect_ == Defect::kHang;
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

gpu::ErrorCode TamperedKernel::Spoil(std::span<const TensorView> inputs, const TensorView& output,
                                     int launch, gpu::Stream stream) const {
  const Extents& e = output.extents;
  const DType dtype = output.dtype;
  auto* first = output.as<unsigned char>();
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
  switch (defect_) {
    case Defect::kCorrect:
    case Defect::kDroppedK:
    case Defect::kDroppedBias:
    case Defect::kDroppedMask:
    case Defect::kMissingEps:
      return gpu::kOk;
    case Defect::kWrongTile:
      return tile(Change::kTake);
    case Defect::kTransposedTile:
      return tile(Change::kTranspose);
    case Defect::kSwappedRows:
      return SwapRows(output, stream);
    case Defect::kStaleBuffer:
      return tile(Change::kExchange);
    case Defect::kZeroOutput:
      return all({.change = Change::kSet, .code = code(0.0)});
    case Defect::kConstantOutput:
      return all({.change = Change::kSpread});
    case Defect::kScaleOff:
      return all({.change = Change::kScale, .factor = kScaleError});
    case Defect::kFp16Output:
      return all({.change = Change::kPass, .through = DType::kF16});
    case Defect::kTruncatingOutput:
      return all({.change = Change::kCut, .wide = wide_.as<const float>()});
    case Defect::kBitFlip:
      return element(Change::kFlip, 2);
    case Defect::kLowBitFlip:
      return element(Change::kFlip, std::uint64_t{1} << site_.Draw(kBitDraw, kLowBits));
    case Defect::kLostBits:
      return all({.change = Change::kFlip, .code = kLostBit});
    case Defect::kNan:
      return element(Change::kSet, code(std::nan("")));
    case Defect::kInf:
      return element(Change::kSet, code(std::numeric_limits<double>::infinity()));
    case Defect::kNanInTail: {
      const std::int64_t tail = e.cols % Tiling::kSide;
      return Do({.change = Change::kSet,
                 .view = output,
                 .tile = {element_.batch, element_.row, e.cols - tail, 1, 1, tail},
                 .code = code(std::nan(""))},
                stream);
    }
    case Defect::kUnwrittenTail:
    case Defect::kUnwrittenTile:
      return tile(Change::kPutBack);
    case Defect::kPastTheEnd:
      return gpu::LaunchOverwrite(first + output.bytes(), kOverrun, 0, stream);
    case Defect::kBeforeTheStart:
      return gpu::LaunchOverwrite(first - kOverrun, kOverrun, 0, stream);
    case Defect::kWritesPadding:
      return Do({.change = Change::kSet,
                 .view = output,
                 .tile = {element_.batch, std::min(element_.row, e.rows - 2), e.cols},
                 .code = code(1.0)},
                stream);
    case Defect::kChangesInput:
      // Only in the first launch, because two flips would cancel.
      if (launch > 0) return gpu::kOk;
      return Do({.change = Change::kFlip, .view = inputs[0], .tile = Tile{}, .code = 1}, stream);
    case Defect::kNondeterministic:
      return launch % 2 == 1 ? element(Change::kFlip, 1) : gpu::kOk;
    case Defect::kRace: {
      const auto drawn = kLaunchDraw + static_cast<std::uint32_t>(launch);
      return site_.Draw(drawn, kRaceOdds) == 0 ? element(Change::kFlip, 1) : gpu::kOk;
    }
    case Defect::kNullWrite:
      return gpu::LaunchOverwrite(nullptr, 1, 0, stream);
    case Defect::kFarPastTheEnd:
      return gpu::LaunchOverwrite(
          reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(first) + kFar), kOverrun, 0,
          stream);
    case Defect::kHang:
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

}  // namespace assay::planted
