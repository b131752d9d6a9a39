// Background probes: one tiny exact case in the gaps between jobs.
//
// The data are whole numbers whose products and sums are exact, so that there is one right
// result to the last bit, on every kernel and every day; its digest is held against the one
// this device gave before, and against the reference. A probe runs while nothing waits, no
// longer than its share, and not while another process holds memory of the device; what it
// took of the device's memory is given back where nothing was held before. One that a job
// finds running is ended, and was none.
#ifndef ASSAY_SERVER_JOBS_BACKGROUND_PROBE_H_
#define ASSAY_SERVER_JOBS_BACKGROUND_PROBE_H_

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

namespace assay {

struct ProbeOptions {
  absl::Duration share = absl::ZeroDuration();     // of each interval; zero: no probes
  absl::Duration interval = absl::ZeroDuration();  // between two of them
  // Whether another process uses the device; empty: never.
  std::function<bool(std::string_view device)> in_use{};
  // A device's memory is given back where no job came for so long, though probes are a use of it;
  // zero: it is kept.
  absl::Duration idle_release = absl::ZeroDuration();
};

// Of one device; called by its runner's thread.
class BackgroundProbe {
 public:
  // `metrics` may be null.
  BackgroundProbe(CaseExecutor& device, Metrics* metrics, const ProbeOptions& options)
      : device_(device), metrics_(metrics), options_(options) {}

  // The next kernel's probe; returns whether one was run. Ends early once `cancel` is set.
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

  CaseExecutor& device_;
  Metrics* const metrics_;
  const ProbeOptions options_;
  std::vector<Subject> subjects_;
  std::size_t next_ = 0;
  absl::Time held_since_ = absl::InfiniteFuture();  // all probes since then found memory held
};

}  // namespace assay

#endif  // ASSAY_SERVER_JOBS_BACKGROUND_PROBE_H_
