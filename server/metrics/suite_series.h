// The metric series of the newest whole run of each suite that times kernels. A device has at most
// kMostSuiteSeries of them. If they do not fit, the errors go first, then the speeds, those of the
// oldest run first. Thread-safe.
#ifndef ASSAY_SERVER_METRICS_SUITE_SERIES_H_
#define ASSAY_SERVER_METRICS_SUITE_SERIES_H_

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/base/roofs.h"
#include "server/metrics/families.h"
#include "server/metrics/suite_tally.h"

namespace assay::server {

// Room for the speeds of all four levels, which are read together, and for the errors of the
// newest.
inline constexpr std::size_t kMostSuiteSeries = 190;

class SuiteSeries {
 public:
  explicit SuiteSeries(Families& families) : families_(families) {}

  // Replaces the series of the suite's last run. If one of a kernel's times is in doubt, the kernel
  // has no speed, because the mean of the rest would be of other cases.
  void Set(const std::string& device, const std::string& suite, const std::string& version,
           const std::map<KernelId, SuiteTally::Kernel>& kernels);

  // Sets the roofs of efficiencies. Removes an efficiency if its roof has changed or is in doubt.
  void SetCeilings(const std::string& device, const CeilingList& ceilings);

 private:
  struct Series {
    Family<Gauge>* family;
    Labels labels;
    double value;
    std::optional<Roof> roof;  // only an efficiency has one
  };
  struct Run {
    std::string suite;
    std::vector<Series> speeds, errors;
    std::size_t size() const { return speeds.size() + errors.size(); }
  };

  void AddSpeeds(Labels labels, const SuiteTally::Kernel& kernel, std::vector<Series>& series);
  // Removes series until the rest fits. An older run loses all of a kind. The newest run loses only
  // as many as it must.
  static void Fit(std::deque<Run>& runs);
  static void DropEmpty(std::deque<Run>& runs);
  // Requires mutex_.
  void DropDoubtful(const std::string& device, std::vector<Series>& speeds);
  // Keeps the first `most` series and removes the rest.
  static void Keep(std::size_t most, std::vector<Series>& series);

  Families& families_;
  std::mutex mutex_;                             // guards what follows
  std::map<std::string, std::deque<Run>> runs_;  // by device, the oldest first
  std::map<std::string, CeilingList> ceilings_;  // by device
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_METRICS_SUITE_SERIES_H_
