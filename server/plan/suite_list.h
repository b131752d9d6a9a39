// Describes the suites that a daemon has, for a listing.
#ifndef ASSAY_SERVER_PLAN_SUITE_LIST_H_
#define ASSAY_SERVER_PLAN_SUITE_LIST_H_

#include <map>
#include <string>
#include <vector>

#include "assay/v1/device.pb.h"
#include "server/plan/plan_options.h"
#include "server/worker/executor.h"

namespace assay::server {

// To plan all suites takes a tenth of a second, so the list keeps what it found and plans again
// what may have changed: a suite whose file or device is another, and each that names kernels of
// users, which come and go. Not thread-safe.
class SuiteList {
 public:
  // The devices and the options must outlive the list.
  SuiteList(const DeviceSet& devices, const PlanOptions& options)
      : devices_(devices), options_(options) {}

  // By name; `with_text` fills the text. A suite that cannot be read is listed with
  // its error. case_count is what a job of it would run on the first device.
  std::vector<v1::Suite> Describe(bool with_text);

 private:
  struct Kept {
    std::string key;  // of all that the suite's description depends on
    v1::Suite suite;  // without a text
  };
  using KeptSuites = std::map<std::string, Kept>;

  // The suite as it was found before, or as it is found now. Adds it to `keep` if it may be kept.
  template <class Find>
  v1::Suite Known(const std::string& name, const std::string& key, KeptSuites& keep, Find find);

  const DeviceSet& devices_;
  const PlanOptions& options_;
  KeptSuites kept_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_PLAN_SUITE_LIST_H_
