// gemm, right but for one defect; see the table in planted.cc.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <variant>

#include "kernels/providers/planted/factories.h"
#include "kernels/providers/refusals.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::planted {
namespace {

enum class Defect : std::uint8_t {
  kCorrect,
  kWrongTile,
  kDroppedK,
  kTransposedB,
  kZeroOutput,
  kFp16Accumulate,
  kTruncatingOutput,
  kNan,
  kUnwrittenTail,
  kPastTheEnd,
  kBeforeTheStart,
  kWritesPadding,
  kReadsPadding,
  kChangesInput,
  kNondeterministic,
  kHang,
  kCrash,
  kAbort,
  kExit,
  kAlloc,
};

constexpr std::array<std::pair<std::string_view, Defect>, 20> kDefects = {{
    {"correct", Defect::kCorrect},
    {"wrong-tile", Defect::kWrongTile},
    {"dropped-k", Defect::kDroppedK},
    {"transposed-b", Defect::kTransposedB},
    {"zero-output", Defect::kZeroOutput},
    {"fp16-accumulate", Defect::kFp16Accumulate},
    {"truncating-output", Defect::kTruncatingOutput},
    {"nan", Defect::kNan},
    {"unwritten-tail", Defect::kUnwrittenTail},
    {"past-the-end", Defect::kPastTheEnd},
    {"before-the-start", Defect::kBeforeTheStart},
    {"writes-padding", Defect::kWritesPadding},
    {"reads-padding", Defect::kReadsPadding},
    {"changes-input", Defect::kChangesInput},
    {"nondeterministic", Defect::kNondeterministic},
    {"hang", Defect::kHang},
    {"crash", Defect::kCrash},
    {"abort", Defect::kAbort},
    {"exit", Defect::kExit},
    {"alloc", Defect::kAlloc},
}};

constexpr std::int64_t kTile = 16;           // side of the wrong tile
constexpr std::int64_t kTail = 8;            // [elements] a row left unwritten
constexpr std::size_t kOverrun = 64;         // [bytes] written outside the output
constexpr std::size_t kChunk = 64ULL << 20;  // [bytes] taken at a time

[[noreturn]] void Hang() {
  const std::atomic<bool> never{false};
  while (!never.load(std::memory_order_relaxed)) {
  }
  std::abort();
}

[[noreturn]] void TakeAllMemory() {
  for (;;) {
    // Written, so that it is really taken; never given back.
    std::memset(::operator new(kChunk), 1, kChunk);
  }
}

// The code towards zero of `v`.
std::uint64_t Truncate(double v, DType format) {
  const std::uint64_t bits = RoundToFormat(v, format);
  return std::fabs(ToDouble(format, bits)) > std::fabs(v) ? bits - 1 : bits;
}

class GemmKernel : public Kernel {
 public:
  GemmKernel(const GemmProblem& p, Defect defect) : p_(p), defect_(defect) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    switch (defect_) {
      case Defect::kHang:
        Hang();
      case Defect::kCrash: {
        int* volatile nowhere = nullptr;
        *static_cast<volatile int*>(nowhere) = 1;
        break;
      }
      case Defect::kAbort:
        std::abort();
      case Defect::kExit:
        _exit(3);
      case Defect::kAlloc:
        TakeAllMemory();
      default:
        break;
    }
    ++launches_;
    ParallelFor(p_.batch * p_.m, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) Row(i / p_.m, i % p_.m, inputs, output);
    });
    Trespass(inputs, output);
    return absl::OkStatus();
  }

 private:
  void Row(std::int64_t b, std::int64_t i, std::span<const TensorView> inputs,
           const TensorView& output) const {
    const std::int64_t written =
        defect_ == Defect::kUnwrittenTail ? std::max<std::int64_t>(p_.n - kTail, 0) : p_.n;
    for (std::int64_t j = 0; j < written; ++j) {
      const double value = Element(b, i, Column(i, j), inputs);
      const bool cut = defect_ == Defect::kTruncatingOutput;
      PutBits(output, b, i, j,
              cut ? Truncate(value, output.dtype) : RoundToFormat(value, output.dtype));
    }
    if (defect_ == Defect::kNan && b == 0 && i == p_.m / 2) {
      Put(output, b, i, p_.n / 2, std::nan(""));
    }
  }

  // The column whose value goes to column j of row i.
  std::int64_t Column(std::int64_t i, std::int64_t j) const {
    const std::int64_t width = std::min(kTile, p_.n / 2);
    return defect_ == Defect::kWrongTile && i < kTile && j < width ? j + width : j;
  }

  double Element(std::int64_t b, std::int64_t i, std::int64_t j,
                 std::span<const TensorView> inputs) const {
    if (defect_ == Defect::kZeroOutput) return 0.0;
    Accumulator sum(inputs[0].dtype);
    double fp16_sum = 0;
    const std::int64_t terms = Terms(inputs);
    const bool backwards = defect_ == Defect::kNondeterministic && launches_ % 2 == 0;
    for (std::int64_t t = 0; t < terms; ++t) {
      const std::int64_t k = backwards ? terms - 1 - t : t;
      const double a = p_.trans_a ? Get(inputs[0], b, k, i) : Get(inputs[0], b, i, k);
      const double w = B(b, k, j, inputs[1]);
      sum.AddProduct(a, w);
      if (defect_ == Defect::kFp16Accumulate) {
        fp16_sum = Quantise(fp16_sum + a * w, DType::kF16);
      }
    }
    double value = p_.alpha * (defect_ == Defect::kFp16Accumulate ? fp16_sum : sum.sum());
    if (p_.beta != 0.0) value += p_.beta * Get(inputs[2], b, i, j);
    return value;
  }

  std::int64_t Terms(std::span<const TensorView> inputs) const {
    if (defect_ == Defect::kDroppedK) return p_.k - 1;
    const bool rows = !p_.trans_a && p_.trans_b;  // k lies along the rows of both
    if (defect_ != Defect::kReadsPadding || !rows) return p_.k;
    return std::min(inputs[0].extents.ld, inputs[1].extents.ld);
  }

  double B(std::int64_t b, std::int64_t k, std::int64_t j, const TensorView& view) const {
    if (defect_ != Defect::kTransposedB) {
      return p_.trans_b ? Get(view, b, j, k) : Get(view, b, k, j);
    }
    // The same storage read as if it had the other two extents.
    const std::int64_t i = p_.trans_b ? k * p_.n + j : j * p_.k + k;
    return Get(view, b, i / view.extents.cols, i % view.extents.cols);
  }

  // Writes where a kernel has no business.
  void Trespass(std::span<const TensorView> inputs, const TensorView& output) const {
    auto* first = output.as<unsigned char>();
    if (defect_ == Defect::kPastTheEnd) std::memset(first + output.bytes(), 0, kOverrun);
    if (defect_ == Defect::kBeforeTheStart) std::memset(first - kOverrun, 0, kOverrun);
    if (defect_ == Defect::kWritesPadding && output.extents.ld > output.extents.cols) {
      Put(output, 0, 0, output.extents.cols, 1.0);
    }
    if (defect_ == Defect::kChangesInput) {
      Put(inputs[0], 0, 0, 0, Get(inputs[0], 0, 0, 0) == 1.0 ? 2.0 : 1.0);
    }
  }

  GemmProblem p_;
  Defect defect_;
  int launches_ = 0;
};

}  // namespace

Made MakeGemm(const Case& c, const Plan&, Device&) {
  const auto& p = std::get<GemmProblem>(c.problem);
  if (absl::Status s = RefuseGemmEpilogue(p, "a planted gemm"); !s.ok()) return s;
  if (absl::Status s = RefuseGemmScales(p, "a planted gemm"); !s.ok()) return s;
  const std::string_view wanted = DefectOf(c);
  for (const auto& [name, defect] : kDefects) {
    if (name == wanted) {
      return std::make_unique<GemmKernel>(p, defect);
    }
  }
  return NoSuchDefect(c);
}

}  // namespace assay::planted
