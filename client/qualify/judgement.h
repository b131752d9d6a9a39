// From what ran on a device to whether it is fit for work, with a code that scripts can
// rely on: codes are only ever added.
#ifndef ASSAY_CLIENT_QUALIFY_JUDGEMENT_H_
#define ASSAY_CLIENT_QUALIFY_JUDGEMENT_H_

#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/v1/case.pb.h"
#include "assay/v1/job.pb.h"

namespace assay {

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

// A failed case run again, to tell the card from the library; one that was late, on its device
// and with its provider only.
struct Retry {
  v1::CaseResult failed;                // as it was
  std::vector<v1::CaseResult> here;     // on the same device, its provider and the others
  std::vector<v1::CaseResult> sibling;  // on other devices of the node, the same provider
};

// What ran on a device.
struct DeviceEvidence {
  std::optional<v1::Job> selftest;  // absent where the device has no planted kernels
  v1::Job job;                      // of the level
  std::vector<v1::CaseResult> results;
  std::vector<Retry> retries;
};

struct Grievance {
  const QualifyCode* code = nullptr;
  std::string why;    // in words, with the first case of it
  std::string repro;  // the line that repeats it; empty where there is none
  int cases = 1;
};

struct Fit {
  // Heaviest first; one "A000" where there is nothing to say.
  std::vector<Grievance> grievances;
  const QualifyCode& code() const { return *grievances.front().code; }
};

// Grievances whose code is in `ignored` do not count.
Fit Judge(const DeviceEvidence& evidence, const std::set<std::string>& ignored);

// A grievance that comes from outside a job: "A901", the daemon cannot be reached.
Grievance Aggrieved(std::string_view code, std::string why);

// FAILED for what it computed, not for how long it took.
bool IsWrong(const v1::CaseResult& result);

// Its kernel did not end in its time.
bool IsLate(const v1::CaseResult& result);

// What Judge asks of a result: all of it where something is wrong, and some tenth of it where it
// passed, so that a night of thousands of devices fits one client.
v1::CaseResult Essence(const v1::CaseResult& result);

// Which failed results are worth a retry: at most `most`, of different operators, providers
// and formats first.
std::vector<v1::CaseResult> WorthRetrying(const std::vector<v1::CaseResult>& results,
                                          std::size_t most);

}  // namespace assay

#endif  // ASSAY_CLIENT_QUALIFY_JUDGEMENT_H_
