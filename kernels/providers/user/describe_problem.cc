#include "kernels/providers/user/describe_problem.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/numerics/poison.h"
#include "kernels/ops/field.h"
#include "kernels/ops/op.h"
#include "kernels/ops/slice.h"
#include "kernels/runtime/arena.h"
#include "kernels/sdk/assay/kernel.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr std::uint64_t kPage = 4096;

constexpr std::uint64_t RoundUp(std::uint64_t n) { return (n + kPage - 1) / kPage * kPage; }

class Writer {
 public:
  template <std::size_t N>
  void Put(std::string_view text, char (&to)[N]) {
    if (text.size() >= N) Fail(Cat("\"", text, "\" is longer than ", N - 1, " characters"));
    std::memcpy(to, text.data(), std::min(text.size(), N - 1));
  }

  void Add(std::string_view name, std::int64_t value) {
    if (SharedParameter* p = Next(name, ASSAY_INTEGER)) Number(*p, value);
  }
  void Add(std::string_view name, bool value) {
    if (SharedParameter* p = Next(name, ASSAY_BOOLEAN)) Number(*p, value ? 1 : 0);
  }
  void Add(std::string_view name, double value) {
    if (SharedParameter* p = Next(name, ASSAY_REAL)) p->real = value;
  }
  void Add(std::string_view name, const std::string& value) {
    if (SharedParameter* p = Next(name, ASSAY_TEXT)) Put(value, p->text);
  }
  void Add(std::string_view name, const IntList& value) {
    if (value.size() > kMaxIntegers) Fail(Cat(name, " has more than ", kMaxIntegers, " values"));
    SharedParameter* const p = Next(name, ASSAY_INTEGERS);
    if (p == nullptr) return;
    p->integer_count = static_cast<std::uint32_t>(std::min(value.size(), kMaxIntegers));
    std::copy_n(value.begin(), p->integer_count, p->integers);
  }

  // A list of words describes tensors and numbers, which a kernel gets as such.
  void Add(std::string_view, const WordList&) {}

  void AddInput(const Operand& operand) {
    if (out().input_count == kMaxInputs) return Fail(Cat("more than ", kMaxInputs, " inputs"));
    Write(operand, out().inputs[out().input_count++]);
  }
  void Write(const Operand& operand, SharedTensor& to);

  Description& out() { return *description_; }
  absl::StatusOr<std::unique_ptr<Description>> Take() {
    if (!error_.empty()) {
      return absl::UnimplementedError(
          Cat("this problem is too large for a user's kernel: ", error_));
    }
    out().total_bytes = end_;
    return std::move(description_);
  }

 private:
  void Fail(std::string why) {
    if (error_.empty()) error_ = std::move(why);
  }
  static void Number(SharedParameter& p, std::int64_t value) {
    p.integer = value;
    p.real = static_cast<double>(value);
  }
  SharedParameter* Next(std::string_view name, std::uint32_t kind) {
    if (out().parameter_count == kMaxParameters) {
      Fail(Cat("more than ", kMaxParameters, " parameters"));
      return nullptr;
    }
    SharedParameter& p = out().parameters[out().parameter_count++];
    Put(name, p.name);
    p.kind = kind;
    return &p;
  }

  std::unique_ptr<Description> description_ = std::make_unique<Description>();
  std::uint64_t end_ = kOperandsOffset;
  std::string error_;
};

// Whether the operator's own axes are the flattened ones, some of them split: every group of axes
// fills exactly one flattened axis. Then each axis has a stride; sets them.
bool OwnStrides(const Operand& operand, std::vector<std::int64_t>* strides) {
  const Extents& e = operand.extents;
  const std::int64_t flat[3] = {e.cols, e.rows, e.batch};
  const std::int64_t step[3] = {1, e.dense() ? e.cols : e.ld,
                                e.dense() ? e.rows * e.cols : e.batch_stride};
  const std::vector<std::int64_t>& dims = operand.dims;
  strides->assign(dims.size(), 0);
  int axis = 0;
  std::int64_t within = 1;  // elements of the flattened axis that inner axes of the group take
  for (std::size_t d = dims.size(); d-- > 0;) {
    while (axis < 2 && within == flat[axis] && dims[d] != 1) {
      ++axis;
      within = 1;
    }
    (*strides)[d] = step[axis] * within;
    within *= dims[d];
    // A dense tensor's axes may span several flattened ones.
    while (e.dense() && axis < 2 && within > flat[axis] && within % flat[axis] == 0) {
      within /= flat[axis];
      ++axis;
    }
    if (within > flat[axis]) return false;
  }
  std::int64_t count = 1;
  for (const std::int64_t n : dims) count *= n;
  return count == e.count() && !dims.empty() && dims.size() <= kMaxRank;
}

void Writer::Write(const Operand& operand, SharedTensor& to) {
  const Extents& e = operand.extents;
  Put(operand.name, to.name);
  to.dtype = static_cast<std::uint32_t>(operand.dtype);
  std::vector<std::int64_t> shape = operand.dims, strides;
  if (!OwnStrides(operand, &strides)) {
    shape = {e.batch, e.rows, e.cols};
    strides = {e.batch_stride, e.ld, 1};
  }
  to.rank = static_cast<std::uint32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), to.shape);
  std::copy(strides.begin(), strides.end(), to.strides);
  to.bytes = StorageBytes(operand.dtype, e.span());
  to.offset = RoundUp(end_ + static_cast<std::uint64_t>(kGuardBytes));
  end_ = RoundUp(to.offset + static_cast<std::uint64_t>(to.bytes + kGuardBytes));
}

}  // namespace

namespace {

Operand DebugBuffer() {
  return {kDebugTensor, DType::kI8, Extents::Dense(1, 1, kDebugBytes), {kDebugBytes}, {}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Description>> DescribeProblem(const Case& c, const Plan& plan,
                                                             bool reference) {
  Writer writer;
  writer.Put(c.kernel_file, writer.out().library);
  writer.Put(OpName(c.problem), writer.out().op);
  writer.out().workspace_byte = GuardByte(c.poison);
  std::visit(
      [&](const auto& problem) {
        VisitFields(problem,
                    [&](std::string_view name, const auto& value) { writer.Add(name, value); });
      },
      OpOf(c).Resolved(c));
  for (const auto& [name, value] : OpOf(c).Scalars(c)) writer.Add(name, value);
  for (const Operand& input : plan.inputs) writer.AddInput(input);
  writer.Write(plan.output, writer.out().output);
  if (reference) writer.Write(plan.output, writer.out().magnitude);
  if (!reference && AsksForDebugBuffer(c)) writer.Write(DebugBuffer(), writer.out().debug);
  return writer.Take();
}

}  // namespace assay::kernels
