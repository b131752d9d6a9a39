// Computes how much of a median may be waiting. On a CPU, threads sometimes wait for processors
// that other programs have.
//
// Without waiting, a sample would have taken at least its time minus the waits of all threads
// during the sample. Waits are known for a group of samples, and any sample of the group may have
// had them. So ShareOfMedian computes a lower bound of the median: it subtracts each group's
// waiting from its samples in the most favourable way, then takes the median. A wait that only a
// few samples saw does not change the median.
#ifndef ASSAY_KERNELS_BENCH_SAMPLE_WAITS_H_
#define ASSAY_KERNELS_BENCH_SAMPLE_WAITS_H_

#include <cstddef>
#include <vector>

namespace assay::inline kernels {

class SampleWaits {
 public:
  // Adds the seconds of a sample. Samples come in the order in which they were taken.
  void Add(double seconds);
  // Whether there are samples whose waiting is not told yet.
  bool open() const { return !groups_.empty() && groups_.back().open; }
  // Tells how long threads waited for other programs since the last call [seconds]. It closes the
  // group of samples.
  void Waited(double seconds);
  // Tells how long other guests had the processors since the last call [seconds]. This time is
  // known only by the tick of a clock. So it is shared among the groups since then, in proportion
  // to their length.
  void Stolen(double seconds);

  // The largest share of the median of the last `samples` samples that may be waiting, 0 to 1.
  double ShareOfMedian(std::size_t samples) const;

 private:
  struct Group {
    std::vector<double> samples;  // [seconds]
    double waited = 0;            // [seconds]
    bool open = true;
  };
  std::vector<Group> groups_;
  std::size_t stolen_from_ = 0;  // the first group without a share of stolen time
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_BENCH_SAMPLE_WAITS_H_
