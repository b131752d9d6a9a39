#include "client/cli/compare_request.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/problems.h"
#include "client/lib/case_options.h"
#include "client/lib/operands.h"
#include "client/lib/parse.h"
#include "client/lib/words.h"

namespace assay::client {
namespace {

class Preparation {
 public:
  explicit Preparation(const CompareOptions& options) : options_(options) {}

  absl::StatusOr<PreparedComparison> Make() {
    Rule();
    Reference();
    if (!problems_.none()) return problems_.Status();
    Tensors();
    if (problems_.none()) Shapes();
    if (problems_.none() && Given("inputs")) Operation();
    if (!problems_.none()) return problems_.Status();
    return std::move(prepared_);
  }

 private:
  bool Given(std::string_view flag) const {
    return std::find(options_.given.begin(), options_.given.end(), flag) != options_.given.end();
  }
  const std::string& Text(const char* flag) const { return options_.own.at(flag); }
  void Refuse(const std::string& message) { problems_.Add(message); }

  // A number of the rule: not NaN, not negative, finite.
  void Tolerance(const char* flag, void (v1::CompareHeader::*set)(double)) {
    double value = 0;
    if (!Given(flag) || !problems_.Take(ParseNumber(flag, Text(flag)), value)) return;
    if (!(value >= 0 && std::isfinite(value))) {
      Refuse(absl::StrCat(flag, ": must be a finite number, 0 (exact) or more, got ", value));
    }
    (prepared_.header.*set)(value);
  }
  std::int64_t Count(const char* flag, std::int64_t most) {
    std::int64_t value = 0;
    if (!Given(flag) || !problems_.Take(ParseInt(flag, Text(flag)), value)) return 0;
    if (value >= 1 && value <= most) return value;
    Refuse(absl::StrCat(flag, ": must be from 1 to ", most, ", got ", value));
    return 0;
  }
  v1::DType Dtype(const char* flag) {
    v1::DType dtype = v1::DTYPE_UNSPECIFIED;
    if (Given(flag)) problems_.Take(ParseWord<v1::DType>(flag, Text(flag)), dtype);
    return dtype;
  }

  void Rule() {
    v1::CompareHeader& header = prepared_.header;
    v1::Criterion criterion = v1::CRITERION_UNSPECIFIED;
    if (Given("criterion")) {
      problems_.Take(ParseWord<v1::Criterion>("criterion", Text("criterion")), criterion);
    }
    header.set_criterion(criterion);
    if (criterion == v1::CRITERION_BOUND && !Given("inputs")) {
      Refuse(
          "criterion: bound counts the roundings of an operation: give its operands and name "
          "it, --inputs A.npy,B.npy --op gemm; derived needs the formats alone");
    }
    Tolerance("atol", &v1::CompareHeader::set_atol);
    Tolerance("rtol", &v1::CompareHeader::set_rtol);
    Tolerance("max-ulp", &v1::CompareHeader::set_max_ulp);
    header.set_accumulations(Count("accumulations", std::int64_t{1} << 40));
    header.set_split_k(static_cast<std::int32_t>(Count("split-k", INT32_MAX)));
    header.set_device(Given("device") ? Text("device") : "");
    common_.dtype = Dtype("dtype");
  }

  void Reference() {
    if (options_.actual.empty()) Refuse("ACTUAL is required: the .npy file under test");
    const int references = (options_.expected.empty() ? 0 : 1) + (Given("expected-digest") ? 1 : 0);
    if (references == 0 && !Given("inputs")) {
      Refuse(
          "nothing to hold ACTUAL against: give EXPECTED, --expected-digest, or --inputs and --op");
    }
    if (references == 2) Refuse("too much to hold ACTUAL against: EXPECTED or --expected-digest");
    if (Given("expected-digest")) {
      const std::string& hex = Text("expected-digest");
      if (Given("inputs")) Refuse("expected-digest: is held against instead of --inputs");
      if (hex.size() != 32 ||
          hex.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
        Refuse(
            absl::StrCat("expected-digest: must be the 32 hexadecimal digits that results "
                         "print as their digest, got \"",
                         hex, "\""));
      }
      prepared_.header.set_expected_digest(hex);
    }
    if (Given("inputs") != Given("op")) {
      Refuse(Given("op") ? "op: needs the operands, --inputs A.npy,B.npy"
                         : "inputs: need the operation they are operands of, --op gemm");
    }
    if (Given("deadline") && !Given("op")) {
      Refuse("deadline: needs --op: it is the time for a reference that the daemon computes");
    }
    for (const auto& [flag, text] : options_.operation) {
      if (Given(flag) && !Given("op")) Refuse(absl::StrCat(flag, ": needs --op"));
    }
  }

  // Opens a file and finds its format; counts whether --dtype spoke of it.
  std::optional<CompareTensor> Open(const std::string& path, const char* own_flag) {
    CompareTensor tensor;
    const std::string option = absl::StrCat("--", own_flag);
    const DtypeOption own{option, Dtype(own_flag)};
    if (!problems_.Take(NpyFile::Open(path), tensor.file)) return std::nullopt;
    absl::StatusOr<v1::DType> dtype = FormatOf(*tensor.file, own, common_);
    const bool of_inputs = std::string_view(own_flag) == "inputs-dtype";
    inputs_used_ = inputs_used_ || (of_inputs && dtype.ok());
    // Operands differ: a bias of float32 beside products of bf16 keeps its type.
    if (of_inputs && !dtype.ok() && tensor.file->element().dtype != v1::DTYPE_UNSPECIFIED) {
      dtype = FormatOf(*tensor.file, {option, v1::DTYPE_UNSPECIFIED}, common_);
    }
    if (!problems_.Take(dtype, tensor.dtype)) return std::nullopt;
    common_used_ |= own.dtype == v1::DTYPE_UNSPECIFIED && tensor.dtype == common_.dtype;
    kinds_.push_back(absl::StrCat(path, " is ", Word(tensor.dtype)));
    return tensor;
  }

  static void Describe(const CompareTensor& tensor, v1::TensorHeader* header) {
    header->set_dtype(tensor.dtype);
    for (const std::int64_t extent : tensor.Shape()) header->add_shape(extent);
  }

  void Tensors() {
    if (auto actual = Open(options_.actual, "actual-dtype")) {
      prepared_.actual = *std::move(actual);
      Describe(prepared_.actual, prepared_.header.mutable_actual());
    }
    if (!options_.expected.empty()) {
      prepared_.expected = Open(options_.expected, "expected-dtype");
      if (prepared_.expected) Describe(*prepared_.expected, prepared_.header.mutable_expected());
    }
    for (const std::string& path :
         Given("inputs") ? SplitList(Text("inputs")) : std::vector<std::string>()) {
      if (auto input = Open(path, "inputs-dtype")) {
        Describe(*input, prepared_.header.add_inputs());
        prepared_.inputs.push_back(*std::move(input));
      }
    }
    if (problems_.none() && Given("inputs-dtype") && !inputs_used_) {
      Refuse(absl::StrCat("inputs-dtype: no file of --inputs can hold ", Text("inputs-dtype"), ": ",
                          absl::StrJoin(kinds_, ", ")));
    }
    if (problems_.none() && common_.dtype != v1::DTYPE_UNSPECIFIED && !common_used_) {
      Refuse(absl::StrCat("dtype: no file can hold ", Word(common_.dtype), ": ",
                          absl::StrJoin(kinds_, ", ")));
    }
  }

  void Shapes() {
    if (!prepared_.expected || prepared_.expected->Shape() == prepared_.actual.Shape()) return;
    Refuse(absl::StrCat(options_.expected, ": its shape is ", ShapeOf(prepared_.expected->Shape()),
                        ", that of ", options_.actual, " is ", ShapeOf(prepared_.actual.Shape()),
                        "; they must be the same"));
  }

  void Operation() {
    const std::string op = absl::StrReplaceAll(Text("op"), {{"-", "_"}});
    std::vector<GivenOption> given;
    std::set<std::string> known;
    for (const CaseOption& option : ProblemOptions(op)) {
      known.insert(option.flag);
      if (Given(option.flag)) given.emplace_back(option, options_.operation.at(option.flag));
    }
    for (const auto& [flag, text] : options_.operation) {
      if (Given(flag) && !known.empty() && !known.contains(flag)) {
        Refuse(absl::StrCat(flag, ": is no option of ", op));
      }
    }
    std::vector<v1::CaseSpec> specs;
    if (!problems_.Take(Expand(op, given), specs)) return;
    if (specs.size() != 1) return Refuse("op: one operation is compared; no option may be a list");
    v1::CaseSpec& spec = specs.front();
    std::vector<NamedShape> operands;
    for (const CompareTensor& input : prepared_.inputs) {
      operands.push_back({input.file->path(), input.Shape()});
    }
    problems_.Add(FillExtents(operands, spec));
    if (!operands.empty()) spec.set_dtype(prepared_.inputs.front().dtype);
    spec.set_out_dtype(prepared_.actual.dtype);
    if (Given("deadline")) {
      google::protobuf::Duration deadline;
      if (problems_.Take(ParseDuration("deadline", Text("deadline")), deadline)) {
        if (deadline.seconds() < 0 || deadline.nanos() < 0 ||
            (deadline.seconds() == 0 && deadline.nanos() == 0)) {
          Refuse(absl::StrCat("deadline: must be more than 0 seconds, got ", Text("deadline")));
        }
        *spec.mutable_deadline() = deadline;
      }
    }
    *prepared_.header.mutable_operation() = spec;
  }

  const CompareOptions& options_;
  Problems problems_;
  PreparedComparison prepared_;
  DtypeOption common_{"--dtype", v1::DTYPE_UNSPECIFIED};
  bool common_used_ = false;
  bool inputs_used_ = false;
  std::vector<std::string> kinds_;
};

}  // namespace

absl::StatusOr<PreparedComparison> Prepare(const CompareOptions& options) {
  return Preparation(options).Make();
}

}  // namespace assay::client
