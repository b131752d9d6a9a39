// How much of a median may be waiting: of launches on a CPU, whose threads at times wait for
// processors that others have.
//
// A sample took no longer than its launches alone would have and what threads, summed up, waited
// meanwhile. What the samples of a group waited together may have been any of them's; the median
// alone is at least the least value that half of all samples can be brought to by what their
// groups waited. So a wait that few samples saw is none of the median's.
#ifndef ASSAY_KERNELS_BENCH_SAMPLE_WAITS_H_
#define ASSAY_KERNELS_BENCH_SAMPLE_WAITS_H_

#include <cstddef>
#include <vector>

namespace assay {

class SampleWaits {
 public:
  // A sample whose launches took so long [seconds], in the order in which they were taken.
  void Add(double seconds);
  // Whether there are samples of which no wait was told.
  bool open() const { return !groups_.empty() && groups_.back().open; }
  // What threads waited for others during the samples since the call before [seconds].
  void Waited(double seconds);
  // What processors were other guests' since the call before [seconds], known by the tick of a
  // clock and hence shared by the groups since, each by its length.
  void Stolen(double seconds);

  // The share of the median of the last `samples` that waiting may account for, 0 to 1.
  double ShareOfMedian(std::size_t samples) const;

 private:
  struct Group {
    std::vector<double> samples;  // [seconds]
    double waited = 0;            // [seconds]
    bool open = true;
  };
  std::vector<Group> groups_;
  std::size_t stolen_from_ = 0;  // the first of groups_ that has no share yet
};

}  // namespace assay

#endif  // ASSAY_KERNELS_BENCH_SAMPLE_WAITS_H_
