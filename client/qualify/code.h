// The codes of a qualification. Scripts rely on them, so codes are added and never changed.
#ifndef ASSAY_CLIENT_QUALIFY_CODE_H_
#define ASSAY_CLIENT_QUALIFY_CODE_H_

#include <span>
#include <string_view>

namespace assay::client {

// In the order of their weight.
enum class Fitness {
  kQualified,     // everything that was asked ran, and was right
  kDegraded,      // right, but slow or unsteady
  kInconclusive,  // nothing is proven
  kFailed,        // not fit for work
};
std::string_view Word(Fitness fitness);

// A finding of a qualification.
struct QualifyCode {
  std::string_view code;  // "A101"
  Fitness fitness;
  // none, monitor, isolate, triage, configuration or reset.
  std::string_view severity;
  std::string_view meaning;
  std::string_view next_step;
};
std::span<const QualifyCode> QualifyCodes();
const QualifyCode* FindCode(std::string_view code);  // null where there is none

// Whether `a` is told before `b`: the heavier fitness, and of one fitness isolate, reset, triage,
// configuration, monitor.
bool Outweighs(const QualifyCode& a, const QualifyCode& b);

// False where leaving it out would qualify a device of which nothing is proven.
bool IsIgnorable(const QualifyCode& code);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_QUALIFY_CODE_H_
