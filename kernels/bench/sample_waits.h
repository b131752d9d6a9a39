// How much of a median may be waiting: of launches on a CPU, whose threads at times wait for
// processors that others have.
//
// Each sample took no longer than its launches alone would have and what threads, summed up,
// waited meanwhile; so the median alone is at least the median of what is left of each. A wait
// that few samples saw is thereby none of the median's, and one that all saw is.
#ifndef ASSAY_KERNELS_BENCH_SAMPLE_WAITS_H_
#define ASSAY_KERNELS_BENCH_SAMPLE_WAITS_H_

#include <cstddef>
#include <vector>

namespace assay {

class SampleWaits {
 public:
  // A sample whose launches took so long [seconds], in the order in which they were taken.
  void Add(double seconds);

  // What threads waited for other programs, or processors were other guests', since the call
  // before [seconds]: the samples since share it, each by its length.
  void Waited(double seconds) { Share(seconds, waited_from_); }
  void Stolen(double seconds) { Share(seconds, stolen_from_); }

  // The share of the median of the last `samples` that waiting may account for, 0 to 1.
  double ShareOfMedian(std::size_t samples) const;

 private:
  struct Sample {
    double seconds = 0, waited = 0;
  };
  void Share(double seconds, std::size_t& from);

  std::vector<Sample> samples_;
  std::size_t waited_from_ = 0, stolen_from_ = 0;  // the first that has no share yet
};

}  // namespace assay

#endif  // ASSAY_KERNELS_BENCH_SAMPLE_WAITS_H_
