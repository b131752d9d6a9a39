// Decides from the results of a device whether it is fit for work.
#ifndef ASSAY_CLIENT_QUALIFY_JUDGEMENT_H_
#define ASSAY_CLIENT_QUALIFY_JUDGEMENT_H_

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "assay/v1/case.pb.h"
#include "assay/v1/job.pb.h"
#include "client/qualify/code.h"
#include "client/qualify/retry.h"

namespace assay::client {

struct Grievance {
  const QualifyCode* code = nullptr;
  std::string why;    // in words, with the first case of it
  std::string repro;  // the line that repeats it; empty where there is none
  int cases = 1;
};

// What ran on a device.
struct DeviceEvidence {
  std::optional<v1::Job> selftest;  // absent where the device has no planted kernels
  std::string no_selftest;          // why it has some and none could be run
  v1::Job job;                      // of the level
  std::vector<v1::CaseResult> results;
  std::optional<Grievance> cut_short;  // why the job was lost sight of after those
  std::vector<Retry> retries;
};

struct Fit {
  // Heaviest first, as Outweighs has it; one "A000" where there is nothing to say.
  std::vector<Grievance> grievances;
  const QualifyCode& code() const { return *grievances.front().code; }
};

// Grievances whose code is in `ignored` do not count; but where nothing was found right, nothing is
// proven, whatever is ignored.
Fit Judge(const DeviceEvidence& evidence, const std::set<std::string>& ignored);

// A grievance that comes from outside a job: "A901", the daemon cannot be reached.
Grievance Aggrieved(std::string_view code, std::string why);

// What Judge asks of a result: all of it where something is wrong, and some tenth of it where it
// passed, so that a night of thousands of devices fits one client.
v1::CaseResult Essence(const v1::CaseResult& result);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_QUALIFY_JUDGEMENT_H_
