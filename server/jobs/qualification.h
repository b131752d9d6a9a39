// What an ended qualification says of each of its devices.
#ifndef ASSAY_SERVER_JOBS_QUALIFICATION_H_
#define ASSAY_SERVER_JOBS_QUALIFICATION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "assay/v1/job.pb.h"
#include "server/store/store.h"

namespace assay {

struct Qualification {
  std::string device;
  bool passed = false;
};

// The devices of a job that has ended, its verdict set: of several each by its own results,
// and none where the job's findings hold against all. The store's errors.
absl::StatusOr<std::vector<Qualification>> QualifyDevices(Store& store, const v1::Job& ended);

}  // namespace assay

#endif  // ASSAY_SERVER_JOBS_QUALIFICATION_H_
