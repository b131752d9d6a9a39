// ColumnUnit: one unit for all figures of a column, so that a reader can compare them at a glance.
#ifndef ASSAY_CLIENT_REPORT_COLUMN_UNIT_H_
#define ASSAY_CLIENT_REPORT_COLUMN_UNIT_H_

#include <string>
#include <string_view>
#include <vector>

namespace assay::client {

struct ColumnUnit {
  std::string name;  // "ms", "GFLOP/s"
  double scale = 1;  // what one of it is
};

// The unit that the middle one of the figures would be said in; seconds, or 1, of none.
// Figures that are not positive numbers do not count.
ColumnUnit TimeUnit(std::vector<double> seconds);
ColumnUnit RateUnit(std::vector<double> per_second, std::string_view unit);

// The figure without its unit, three digits: "0.00131", "18.9", "12,345".
std::string InUnit(double value, const ColumnUnit& unit);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_COLUMN_UNIT_H_
