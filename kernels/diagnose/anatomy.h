// Anatomy: describes where in an output the errors lie. A person looks at that first: a row in
// every 64 points at the edge of a tile, a single element at a stray write.
//
// It is a second pass, for outputs with mismatches only. It judges every element again as the
// comparison judged it (kernels/runtime/cpu/compare_element.h). It then describes the wrong
// elements along the output's own axes and against the expected values.
#ifndef ASSAY_KERNELS_DIAGNOSE_ANATOMY_H_
#define ASSAY_KERNELS_DIAGNOSE_ANATOMY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/ops/case.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/ops/plan.h"
#include "kernels/runtime/cpu/compare_element.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// Elements that are looked at: the output's first ones.
inline constexpr std::int64_t kMaxDissected = std::int64_t{1} << 25;
// Wrong elements that are kept, evenly spread.
inline constexpr std::size_t kWrongSamples = 64;

// Factors or offsets that make lines (rows, columns, or the whole) right again.
struct LineFit {
  std::int64_t lines = 0;
  double least = 0;
  double most = 0;
};

struct Anatomy {
  std::int64_t count = 0;  // elements of the output
  std::int64_t seen = 0;   // elements looked at
  std::int64_t wrong = 0;
  std::vector<AxisErrors> axes;  // the output's, outermost first
  double fill = 0;               // wrong elements over all elements at the axes' hit indices
  bool one_block = false;        // they are most of one rectangle of the last two axes
  // Of the last two axes, column less row; absent where there are not two.
  std::optional<std::int64_t> least_diagonal;
  std::optional<std::int64_t> most_diagonal;

  std::int64_t finite = 0;  // wrong and finite on both sides
  std::int64_t zeroed = 0;  // of these, 0 where something else was expected
  double most_zeroed = 0;   // largest |expected| among the zeroed
  double least_kept = 0;    // smallest |expected| that did not come out as 0; 0: none
  bool constant = false;    // all finite outputs are one value, unlike the expected
  double rms_error = 0;     // over the finite
  // How much of the errors of a wrong row survives in their sum, or in that of their
  // parts along the expected values: 1 where all point one way, about 1/√n by chance.
  double coherence = 0;
  double rms_expected = 0;
  std::optional<double> factor;        // all outputs are this times the expected
  std::optional<LineFit> row_factors;  // every wrong row is its own factor times the expected
  std::optional<LineFit> column_factors;
  std::optional<LineFit> column_offsets;  // every wrong column is off by its own constant

  // Wrong elements hold what belongs at their coordinates plus this; empty: not so.
  std::vector<std::int64_t> displaced;
  bool transposed = false;  // wrong elements hold what belongs at the last two axes exchanged
  std::vector<WrongElement> samples;  // finite ones, ascending
  std::string words;                  // "all in rows 63, 127, 191 … (period 64)"
};

// Collects judged elements, in ascending order, and says how the wrong ones lie.
class ErrorMap {
 public:
  // `rule` must outlive the map.
  ErrorMap(const Case& c, const Plan& plan, const internal::CompareRule& rule);

  void Add(std::int64_t index, const internal::Judgement& j);
  // Everything but what needs the output as a whole: displaced, transposed.
  Anatomy Finish();

 private:
  // Sums of a line's elements in units of their bounds: a = o/T, b = r/T, d = (o−r)/T.
  struct Line {
    std::int64_t n = 0;
    std::int64_t wrong = 0;
    double aa = 0, ab = 0, bb = 0, dd = 0, d_over_t = 0, one_over_tt = 0;
    double d = 0, d_along = 0, d_magnitude = 0;  // Σd, Σd·sign(r), Σ|d|

    void Add(double o, double r, double t);
    std::optional<double> Factor() const;
    std::optional<double> Offset() const;
  };
  struct Lines {
    std::int64_t wrong = 0;    // elements of wrong lines
    std::int64_t fitting = 0;  // those of them in lines that fit
    std::int64_t lines = 0;    // wrong ones
    LineFit fit;

    void Add(const Line& line, const std::optional<double>& value);
    std::optional<LineFit> Fit() const;
  };

  void EndRow();
  double Unit(const internal::Judgement& j) const;
  void Keep(std::int64_t index, const internal::Judgement& j);

  const internal::CompareRule& rule_;
  const std::vector<std::int64_t> dims_;
  Anatomy anatomy_;
  std::vector<std::vector<bool>> hits_;  // an axis
  Line all_;
  Line row_;
  Lines rows_;
  double coherence_ = 0;       // summed over the wrong elements' rows
  std::vector<Line> columns_;  // empty where there are too many
  std::int64_t row_at_ = -1;
  double squared_error_ = 0;
  double squared_expected_ = 0;
  std::optional<double> first_output_;
  bool one_output_ = true;
  std::int64_t stride_ = 1;  // of the samples kept among the finite wrong elements
};

// The whole of it: reads output and reference of `request` from the device in pieces.
// The device's own errors.
absl::StatusOr<Anatomy> Dissect(const Case& c, const Plan& plan, Device& device,
                                const CompareRequest& request);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_DIAGNOSE_ANATOMY_H_
