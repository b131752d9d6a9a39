#include "kernels/providers/external/external.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/dtype.h"
#include "kernels/runtime/kernel_failure.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// Puts the bytes of a tensor's logical elements, which come in pieces, into device memory.
class Landing {
 public:
  explicit Landing(const TensorView& view) : view_(view) {}

  std::int64_t expected() const { return StorageBytes(view_.dtype, view_.count()); }
  std::int64_t received() const { return received_; }

  absl::Status Add(Device& device, std::string_view bytes) {
    const Extents& e = view_.extents;
    char* const base = static_cast<char*>(view_.data);
    while (!bytes.empty()) {
      std::int64_t at = received_;
      auto run = static_cast<std::int64_t>(bytes.size());
      if (!e.dense()) {
        const std::int64_t row_bytes = std::max<std::int64_t>(StorageBytes(view_.dtype, e.cols), 1);
        const std::int64_t row = received_ / row_bytes;
        const std::int64_t inside = received_ % row_bytes;
        const std::int64_t begin = (row / e.rows) * e.batch_stride + (row % e.rows) * e.ld;
        at = StorageBytes(view_.dtype, begin) + inside;
        run = std::min(run, row_bytes - inside);
      }
      if (absl::Status s = device.FromHost(bytes.data(), run, base + at); !s.ok()) return s;
      received_ += run;
      bytes.remove_prefix(static_cast<std::size_t>(run));
    }
    return absl::OkStatus();
  }

 private:
  TensorView view_;
  std::int64_t received_ = 0;
};

class ExternalKernel final : public Kernel {
 public:
  ExternalKernel(Elsewhere& elsewhere, Device& device) : elsewhere_(elsewhere), device_(device) {}

  absl::Status Bring(std::span<const TensorView> inputs, const TensorView& output) override {
    if (absl::Status s = elsewhere_.Bring(inputs, device_); !s.ok()) return s;
    poison_ = 0;
    if (output.count() == 0) return absl::OkStatus();
    std::uint64_t first[2] = {0, 0};
    absl::Status status = device_.ToHost(output, 0, 1, first);
    poison_ = LoadBits(output.dtype, first, 0);
    return status;
  }

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    if (absl::Status s = elsewhere_.Launch(poison_); !s.ok()) return s;
    std::vector<Landing> landings;
    for (const TensorView& view : inputs) landings.emplace_back(view);
    landings.emplace_back(output);
    absl::Status wrong;  // found before the launch's end: what is on its way is taken all the same
    for (;;) {
      absl::StatusOr<Elsewhere::Piece> piece = elsewhere_.Await();
      if (!piece.ok()) return wrong.ok() ? piece.status() : wrong;
      if (piece->end) break;
      if (wrong.ok()) wrong = Take(*piece, landings);
    }
    return wrong.ok() ? CheckWhole(landings) : wrong;
  }

  std::string implementation() const override { return "the caller's process"; }

 private:
  absl::Status Take(const Elsewhere::Piece& piece, std::vector<Landing>& landings) {
    if (piece.tensor < 0 || piece.tensor >= static_cast<int>(landings.size())) {
      return NoAnswer(Cat("the case has the tensors 0 to ", landings.size() - 1, ", got bytes of ",
                          piece.tensor));
    }
    Landing& landing = landings[static_cast<std::size_t>(piece.tensor)];
    const auto size = static_cast<std::int64_t>(piece.bytes.size());
    if (size > landing.expected() - landing.received()) {
      return NoAnswer(Cat("tensor ", piece.tensor, " has ", landing.expected(),
                          " bytes, got at least ", landing.received() + size));
    }
    return landing.Add(device_, piece.bytes);
  }

  // The caller's program does not keep to the protocol, which is no fault of its function's.
  static absl::Status NoAnswer(std::string_view what) {
    return FailedKernel({.error = KernelError::kProtocol},
                        Cat("the caller's answer to a launch is wrong: ", what));
  }

  // The output must be there, and of an input all or nothing.
  static absl::Status CheckWhole(const std::vector<Landing>& landings) {
    for (std::size_t i = 0; i < landings.size(); ++i) {
      const bool unchanged = i + 1 < landings.size() && landings[i].received() == 0;
      if (unchanged || landings[i].received() == landings[i].expected()) continue;
      return NoAnswer(Cat("tensor ", i, " has ", landings[i].expected(), " bytes, got ",
                          landings[i].received()));
    }
    return absl::OkStatus();
  }

  Elsewhere& elsewhere_;
  Device& device_;
  std::uint64_t poison_ = 0;
};

// Whether the rows of a 4-bit tensor would share bytes: the other process has each row in bytes of
// its own.
bool SharesBytes(const Operand& o) {
  const std::int64_t innermost = o.dims.empty() ? 1 : o.dims.back();
  return o.dtype == DType::kE2M1 && innermost % 2 != 0 && o.extents.count() > innermost;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeExternal(const Case& c, const Plan& plan,
                                                     Device& device) {
  if (c.elsewhere == nullptr) return absl::UnimplementedError("nobody runs the function");
  const bool strided = !plan.output.extents.dense() ||
                       std::any_of(plan.inputs.begin(), plan.inputs.end(),
                                   [](const Operand& o) { return !o.extents.dense(); });
  if (c.dtype == DType::kE2M1 && strided) {
    return absl::UnimplementedError("a function takes 4-bit tensors without padding only");
  }
  if (SharesBytes(plan.output) ||
      std::any_of(plan.inputs.begin(), plan.inputs.end(), SharesBytes)) {
    return absl::UnimplementedError(
        "a function takes 4-bit tensors of several rows only if the innermost extent is even");
  }
  if (absl::Status s = c.elsewhere->BeginKernel(c, plan); !s.ok()) return s;
  return std::make_unique<ExternalKernel>(*c.elsewhere, device);
}

}  // namespace

absl::Status Elsewhere::BeginKernel(const Case& c, const Plan& plan) {
  sent_.assign(plan.inputs.size(), std::nullopt);
  return Describe(c, plan);
}

absl::Status Elsewhere::Bring(std::span<const TensorView> inputs, Device& device) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    absl::StatusOr<TensorDigest> digest = device.Digest(inputs[i]);
    if (!digest.ok()) return digest.status();
    if (sent_[i] == *digest) continue;
    if (absl::Status s = SendWhole(static_cast<int>(i), inputs[i], device); !s.ok()) return s;
    sent_[i] = *digest;
  }
  return absl::OkStatus();
}

absl::Status Elsewhere::SendWhole(int tensor, const TensorView& view, Device& device) {
  const std::int64_t most = kMostExternalBytes * 8 / Info(view.dtype).storage_bits;
  for (std::int64_t begin = 0; begin < view.count(); begin += most) {
    const std::int64_t count = std::min(most, view.count() - begin);
    const std::int64_t bytes = StorageBytes(view.dtype, count);
    stage_.resize(static_cast<std::size_t>(bytes) / sizeof(double) + 1);
    if (absl::Status s = device.ToHost(view, begin, count, stage_.data()); !s.ok()) return s;
    const std::string_view piece(reinterpret_cast<const char*>(stage_.data()),
                                 static_cast<std::size_t>(bytes));
    if (absl::Status s = Send(tensor, piece); !s.ok()) return s;
  }
  return absl::OkStatus();
}

KernelEntry ExternalEntry(std::string_view op, std::string_view backend) {
  return KernelEntry{.op = op,
                     .provider = kExternalProvider,
                     .backend = backend,
                     .dtypes = AllFormats(),
                     .make = &MakeExternal};
}

}  // namespace assay::kernels
