// Words: the names that people use for enum values of the API, and suggestions for misspelt names.
//
// A value's word is its name without the prefix of the enum. Formats, criteria and modes are in
// lower case ("bf16"). Verdicts and states are in upper case ("PASSED"). All functions are pure.
#ifndef ASSAY_CLIENT_LIB_WORDS_H_
#define ASSAY_CLIENT_LIB_WORDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "assay/v1/case.pb.h"
#include "assay/v1/types.pb.h"
#include "google/protobuf/descriptor.h"

namespace assay::client {

// "DTYPE_BF16" -> "bf16", "VERDICT_PASSED" -> "PASSED", "DEVICE_STATE_READY" ->
// "READY". Empty for the zero value and for numbers this client does not know.
std::string EnumWord(const google::protobuf::EnumDescriptor& type, int number);

// EnumWord of a generated enum.
template <class Enum>
std::string Word(Enum value) {
  return EnumWord(*google::protobuf::GetEnumDescriptor<Enum>(), static_cast<int>(value));
}

// The words of all values but the zero, in the order of the proto.
std::vector<std::string> EnumWords(const google::protobuf::EnumDescriptor& type);

// The number a word stands for, in any case. INVALID_ARGUMENT says `what` is
// unknown, names the near word and lists the known ones.
absl::StatusOr<int> ParseEnumWord(const google::protobuf::EnumDescriptor& type,
                                  std::string_view what, std::string_view word);

// ParseEnumWord of a generated enum.
template <class Enum>
absl::StatusOr<Enum> ParseWord(std::string_view what, std::string_view word) {
  auto number = ParseEnumWord(*google::protobuf::GetEnumDescriptor<Enum>(), what, word);
  if (!number.ok()) return number.status();
  return static_cast<Enum>(*number);
}

// The candidate a user most likely meant (NearestName); empty where none is near.
std::string NearWord(std::string_view word, const std::vector<std::string>& candidates);

// `; did you mean "gemm"?`, or nothing where no candidate is near.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates);

// DidYouMean, and after it all the words there are.
std::string KnownWords(std::string_view word, const std::vector<std::string>& known);

// Whether a case that ended in this phase (Finding.phase) on this device ("cuda:3") had its kernel
// behind or before it, and the host at work: what came of it says nothing of kernel and device. An
// accelerator fills and compares by itself, and may hang at it. False where the phase is empty.
bool IsPhaseOfHost(std::string_view phase, std::string_view device);

// Who is to blame for a finding: what the daemon said. If it said nothing, as daemons and reports
// did before they had the field, the words of reason and phase decide: a lack of memory, and a
// deadline that came while the host was at work, are the host's; all else is the kernel's. A
// worker that was killed from outside cannot be told from a crash then.
v1::Blame BlameOf(v1::Blame said, std::string_view reason, std::string_view phase,
                  std::string_view device);

// Whether a case that ended in ERROR speaks neither for nor against device and kernel.
bool IsNobodysFault(v1::Blame blame);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_WORDS_H_
