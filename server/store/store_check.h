// StoreCheck reads every job of a store once, with its results and its events, on a thread of its
// own and at low priority. What cannot be read is logged with the job's name: the records of a
// large file are not checked when it is opened.
#ifndef ASSAY_SERVER_STORE_STORE_CHECK_H_
#define ASSAY_SERVER_STORE_STORE_CHECK_H_

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "server/store/store_reader.h"

namespace assay::server {

// Reads the jobs until `stop` says so. `damaged` gets each job that cannot be read, and why.
// Returns what kept it from reading the list of jobs.
absl::Status CheckJobs(StoreReader& reader, const std::stop_token& stop,
                       const std::function<void(const std::string&, const absl::Status&)>& damaged);

class StoreCheck {
 public:
  // `found_damage` is called on the check's thread, at most once.
  StoreCheck(std::unique_ptr<StoreReader> reader, std::function<void()> found_damage);

 private:
  void Run(const std::stop_token& stop, const std::function<void()>& found_damage);

  const std::unique_ptr<StoreReader> reader_;
  std::jthread thread_;  // last: stopped and joined before what it uses ends
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_STORE_STORE_CHECK_H_
