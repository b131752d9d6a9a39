// The series of the newest whole run of each suite that times kernels, at most kMostSuiteSeries
// a device: the oldest run's give way, and errors of any run before any speeds.
// Thread-safe.
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

namespace assay {

// The speeds of all four levels, which are read together, and errors of the newest.
inline constexpr std::size_t kMostSuiteSeries = 190;

class SuiteSeries {
 public:
  explicit SuiteSeries(Families& families) : families_(families) {}

  // Replaces those of the suite's run before. A kernel one of whose times is not to be
  // believed has no speed: the mean of the rest is of other cases.
  void Set(const std::string& device, const std::string& suite, const std::string& version,
           const std::map<KernelId, SuiteTally::Kernel>& kernels);

  // What efficiencies are shares of: those of another roof, or of one in doubt, are gone at once.
  void SetCeilings(const std::string& device, const CeilingList& ceilings);

 private:
  struct Series {
    Family<Gauge>* family;
    Labels labels;
    double value;
    std::optional<Roof> roof;  // of an efficiency
  };
  struct Run {
    std::string suite;
    std::vector<Series> speeds, errors;
    std::size_t size() const { return speeds.size() + errors.size(); }
  };

  void AddSpeeds(Labels labels, const SuiteTally::Kernel& kernel, std::vector<Series>& series);
  // Takes what does not fit from the oldest, the newest last.
  static void Fit(std::deque<Run>& runs);
  static void DropEmpty(std::deque<Run>& runs);
  // Requires mutex_.
  void DropDoubtful(const std::string& device, std::vector<Series>& speeds);
  // Removes all of them but so many.
  static void Keep(std::size_t most, std::vector<Series>& series);

  Families& families_;
  std::mutex mutex_;                             // guards what follows
  std::map<std::string, std::deque<Run>> runs_;  // by device, the oldest first
  std::map<std::string, CeilingList> ceilings_;  // by device
};

}  // namespace assay

#endif  // ASSAY_SERVER_METRICS_SUITE_SERIES_H_
