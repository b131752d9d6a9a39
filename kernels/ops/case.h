// A case: one kernel on one problem with one set of data; plain values, checked
// before anything is allocated.
#ifndef ASSAY_KERNELS_OPS_CASE_H_
#define ASSAY_KERNELS_OPS_CASE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernels/numerics/dtype.h"
#include "kernels/numerics/pattern.h"
#include "kernels/numerics/poison.h"
#include "kernels/ops/attention/problem.h"
#include "kernels/ops/conv/problem.h"
#include "kernels/ops/copy/problem.h"
#include "kernels/ops/custom/problem.h"
#include "kernels/ops/dequant_softmax/problem.h"
#include "kernels/ops/elementwise/problem.h"
#include "kernels/ops/gemm/problem.h"
#include "kernels/ops/layer_norm/problem.h"
#include "kernels/ops/reduce/problem.h"
#include "kernels/ops/rope/problem.h"
#include "kernels/ops/softmax/problem.h"

namespace assay::inline kernels {

using Problem = std::variant<GemmProblem, ConvProblem, AttentionProblem, SoftmaxProblem,
                             LayerNormProblem, CopyProblem, DequantSoftmaxProblem, ReduceProblem,
                             ElementwiseProblem, RopeProblem, CustomProblem>;

// Values equal assay.v1's; a test holds them together.
enum class Criterion : std::uint8_t {
  kUnspecified = 0,
  kBound = 1,
  kDerived = 2,
  kAllClose = 3,
  kUlp = 4,
  kBitwise = 5,
  kLegacy = 6,
};

enum class Mode : std::uint8_t { kUnspecified = 0, kValidate = 1, kBenchmark = 2, kBoth = 3 };

// Values equal assay.v1.Verification's; a test holds them together.
enum class Verification : std::uint8_t { kUnspecified = 0, kFull = 1, kChecksum = 2 };

inline constexpr int kDefaultChecksumProbes = 4;
inline constexpr int kMaxChecksumProbes = 64;

// What a published table says of a case; reports show it beside what was measured.
struct Published {
  std::string name;                     // the row's, "One-hot pattern"
  std::optional<double> max_abs_error;  // none where the source gives a limit only
  std::optional<double> limit;          // the largest |error| the source lets pass
  bool passed = false;
  std::string source;  // "FP8 attention lessons"
};

// The way to a function of another process; kernels/providers/external/external.h defines it.
class Elsewhere;
// The way to a reference of the caller's; kernels/ops/own_reference.h defines it.
class OwnReference;
// The most bytes of a tensor that go that way at once.
inline constexpr std::int64_t kMostExternalBytes = std::int64_t{1} << 20;

struct Case {
  Problem problem;
  std::string name;
  DType dtype = DType::kUnspecified;      // inputs
  DType out_dtype = DType::kUnspecified;  // unspecified: the operator's default
  std::string provider;                   // "onednn", "planted/wrong-tile", or "all" in suites
  std::string pattern;                    // text form; empty: the op's own
  std::optional<std::uint64_t> seed;
  Criterion criterion = Criterion::kUnspecified;  // unspecified: bound
  std::optional<double> atol;
  std::optional<double> rtol;
  std::optional<double> max_abs_error;
  std::optional<double> max_rel_error;
  std::optional<double> max_ulp;
  std::optional<double> min_efficiency;
  int repeats = 0;                 // 0: the job's, or 1
  Mode mode = Mode::kUnspecified;  // unspecified: the job's, or validate
  std::optional<double> deadline_seconds;
  // When the deadline began [seconds of the steady clock]; its probes share it. 0: when the kernel
  // is made. Set by the worker, never by a user.
  double deadline_from = 0;
  // The slowest launch of the kernel so far [s]; 0: none was. Set for exact cases alone, where a
  // user's kernel has a process of its own.
  double slowest_launch = 0;
  Verification verify = Verification::kUnspecified;  // unspecified: full
  int checksum_probes = 0;  // random vectors a side; 0: kDefaultChecksumProbes
  bool probes = true;       // exact cases and identities beside the data
  // Of the derived criterion, and of an operator of the caller's own; 0: the op's own.
  std::int64_t accumulations = 0;
  int split_k = 0;            // partial sums, of the derived criterion; 0: 1
  bool all_criteria = false;  // say what the other criteria make of the output
  // Canonical digests that exact cases must give, by their names.
  std::map<std::string, std::string> golden;
  std::vector<std::string> slices;  // elements to show: "actual[0:8,0:8]"
  std::optional<Published> published;
  // The data make every sum exact: no allowance, the correctly rounded result only.
  // Set for probes (Op::Probes), never by a user.
  bool exact = false;
  // The input whose significands the output shows, in the plan's order. The others pick its
  // elements (Op::Probes). -1: none. Set for probes, most of them exact.
  int significand = -1;
  // What lies around the operands, and in a workspace before the first launch; in probes in the
  // output, too. Set for probes, never by a user.
  Poison poison = Poison::kFirst;
  // The library of a user's kernel ("user/…"), on this machine. Set by the worker, never by a user.
  std::string kernel_file;
  // The kernel that computes the reference ("user/…"); see OpTraits::own_reference.
  std::string reference;
  // What a user's kernel or a caller's function does by design, as Kernel::operand_roundoff,
  // flushes_subnormals, accumulator and intermediate_roundoff (kernels/providers/provider.h) say it
  // of others.
  std::optional<double> operand_roundoff;
  bool flushes_subnormals = false;
  bool cuts_off_sums = false;
  DType intermediate_dtype = DType::kUnspecified;
  // Computes the reference. Set by the worker, never by a user.
  OwnReference* own_reference = nullptr;
  // Where the kernel of provider "external" runs. Set by the worker, never by a user.
  Elsewhere* elsewhere = nullptr;
  // The largest magnitude of each operand, in the plan's order, of data that no pattern
  // made. Set for comparisons, never by a user.
  std::vector<double> magnitudes;
};

// Format of the case's output: out_dtype, or the operator's default.
DType OutputType(const Case& c);

// A problem of the named operator with every field at its default, or nothing.
std::optional<Problem> DefaultProblem(std::string_view op);

// Inputs that --pattern fills: every operand but attention's mask.
int DataOperands(const Problem& problem);

// "gemm", "conv", …
std::string_view OpName(const Problem& problem);

// int32 for int8; fp32 for tf32 and the 8- and 4-bit floats, which results are seldom
// kept in; else the input's format.
constexpr DType DefaultOutput(DType input) {
  if (input == DType::kI8) return DType::kI32;
  const FormatInfo& f = Info(input);
  return input == DType::kTF32 || (!f.is_integer && f.storage_bits < 16) ? DType::kF32 : input;
}

// The pattern of each operand, in the plan's order of operands: one pattern
// serves all, else there must be one an operand, "/" between.
std::optional<std::vector<Pattern>> ParsePatterns(std::string_view text, std::string* error);

// Everything wrong with a case that needs no device: shape, formats, pattern,
// tolerances, repeats. Field names are paths inside the case: "gemm.m", "dtype".
std::vector<FieldError> Check(const Case& c);

// Why a criterion cannot judge an output of a format, and what can; empty where it can.
std::string CriterionFault(Criterion criterion, DType output);

// "gemm 1024x1024x1024 bf16 onednn", with the output's format and the pattern
// where they are not the default.
std::string DefaultName(const Case& c);

// The command line that runs the case: "assay run gemm --m 1024 … --seed 1".
std::string ReproLine(const Case& c, std::string_view device);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_CASE_H_
