// IdleCheck runs one tiny exact case on a device while no job waits for it (the idle check).
//
// The case's data are whole numbers whose products and sums are exact. So every kernel has one
// right result, to the last bit, on every day. The check compares the result's digest with the
// digest that the device gave before, and the result with the reference.
//
// A check takes no more than its share of the time. It does not run while another process holds
// memory of the device. It gives the device's memory back if none was held before. When a job
// comes, the check that runs is cancelled and does not count.
#ifndef ASSAY_SERVER_PASS_IDLE_CHECK_H_
#define ASSAY_SERVER_PASS_IDLE_CHECK_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "assay/v1/case.pb.h"
#include "assay/v1/device.pb.h"
#include "server/metrics/metrics.h"
#include "server/worker/executor.h"

namespace assay::server {

struct IdleCheckOptions {
  absl::Duration share = absl::ZeroDuration();     // of each interval; zero: no checks
  absl::Duration interval = absl::ZeroDuration();  // between two of them
  // Whether another process uses the device; empty: never.
  std::function<bool(std::string_view device)> in_use{};
  // If no job came for so long, the device's memory is given back, although checks use it. Zero: it
  // is kept.
  absl::Duration idle_release = absl::ZeroDuration();
};

// Of one device; called by its runner's thread.
class IdleCheck {
 public:
  // `metrics` may be null.
  IdleCheck(CaseExecutor& device, Metrics* metrics, const IdleCheckOptions& options)
      : device_(device), metrics_(metrics), options_(options) {}

  // Checks with the next kernel; returns whether a case was run. Ends early once `cancel` is set.
  bool Run(const CancelToken& cancel);

 private:
  struct Subject {
    std::string provider;
    v1::DType dtype = v1::DTYPE_UNSPECIFIED;
    std::size_t size = 0;  // position on the ladder of sizes
    int strikes = 0;       // times that the smallest took too long
    bool too_slow = false;
    std::map<std::size_t, std::string> digests;  // what it gave, by size
  };
  void FindSubjects();
  v1::CaseSpec SpecOf(const Subject& subject) const;
  // Runs the case and gives the device's memory back as the options say.
  v1::CaseResult Execute(const Subject& subject, const CancelToken& cancel);
  // Holds the digest against the one before, and tells what was found.
  void Judge(Subject& subject, v1::CaseResult& result);
  // Chooses the size of the subject's next case after one that took `ran`.
  void Pace(Subject& subject, const std::string& name, absl::Duration ran) const;

  CaseExecutor& device_;
  Metrics* const metrics_;
  const IdleCheckOptions options_;
  std::vector<Subject> subjects_;
  std::size_t next_ = 0;
  absl::Time held_since_ = absl::InfiniteFuture();  // all checks since then found memory held
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_PASS_IDLE_CHECK_H_
