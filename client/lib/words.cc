#include "client/lib/words.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/lib/text.h"
#include "proto/near_name.h"

namespace assay::client {
namespace {

// "Mode" -> "MODE_", "DType" -> "DTYPE_", "DeviceState" -> "DEVICE_STATE_": all
// values of an enum begin with what its zero, PREFIX_UNSPECIFIED, begins with.
std::string_view Prefix(const google::protobuf::EnumDescriptor& type) {
  std::string_view zero = type.value(0)->name();
  absl::string_view prefix = View(zero);
  absl::ConsumeSuffix(&prefix, "UNSPECIFIED");
  return {prefix.data(), prefix.size()};
}

bool SaidInUpperCase(const google::protobuf::EnumDescriptor& type) {
  return type.name() == "Verdict" || type.name() == "JobState" || type.name() == "DeviceState";
}

// By a device's id or name, "devices/cuda:3". False where it is not known.
bool IsAccelerator(std::string_view device) {
  const std::string_view id = device.substr(device.rfind('/') + 1);
  return !id.empty() && !id.starts_with("cpu") && !id.starts_with("simt");
}

}  // namespace

std::string EnumWord(const google::protobuf::EnumDescriptor& type, int number) {
  const auto* value = type.FindValueByNumber(number);
  if (number == 0 || value == nullptr) return "";
  std::string word = value->name().substr(Prefix(type).size());
  if (!SaidInUpperCase(type)) absl::AsciiStrToLower(&word);
  return word;
}

std::vector<std::string> EnumWords(const google::protobuf::EnumDescriptor& type) {
  std::vector<std::string> words;
  for (int i = 1; i < type.value_count(); ++i) {
    words.push_back(EnumWord(type, type.value(i)->number()));
  }
  return words;
}

absl::StatusOr<int> ParseEnumWord(const google::protobuf::EnumDescriptor& type,
                                  std::string_view what, std::string_view word) {
  for (int i = 1; i < type.value_count(); ++i) {
    const int number = type.value(i)->number();
    const std::string known = EnumWord(type, number);
    if (absl::AsciiStrToLower(known) == absl::AsciiStrToLower(View(word))) {
      return number;
    }
  }
  const std::vector<std::string> known = EnumWords(type);
  const char* noun = type.name() == "DType" ? "type" : "word";
  return absl::InvalidArgumentError(absl::StrCat(View(what), ": unknown ", noun, " \"", View(word),
                                                 "\"", KnownWords(word, known)));
}

std::string NearWord(std::string_view word, const std::vector<std::string>& candidates) {
  const std::vector<std::string_view> known(candidates.begin(), candidates.end());
  return std::string(NearestName(word, known));
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = NearWord(word, candidates);
  return near.empty() ? "" : absl::StrCat("; did you mean \"", near, "\"?");
}

std::string KnownWords(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = DidYouMean(word, known);
  return absl::StrCat(near, near.empty() ? "; known: " : " Known: ", absl::StrJoin(known, ", "));
}

bool IsPhaseOfHost(std::string_view phase, std::string_view device) {
  if (phase.empty() || phase == "prepare" || phase == "kernel" || phase == "bench") return false;
  const bool of_device =
      phase == "fill" || phase == "guards" || phase == "reference" || phase == "compare";
  return !(of_device && IsAccelerator(device));
}

v1::Blame BlameOf(v1::Blame said, std::string_view reason, std::string_view phase,
                  std::string_view device) {
  if (said != v1::BLAME_UNSPECIFIED) return said;
  const bool of_host = reason == "memory" || (reason == "timeout" && IsPhaseOfHost(phase, device));
  return of_host ? v1::BLAME_HOST : v1::BLAME_KERNEL;
}

bool IsNobodysFault(v1::Blame blame) {
  return blame == v1::BLAME_HOST || blame == v1::BLAME_CALLER || blame == v1::BLAME_NOBODY;
}

}  // namespace assay::client
