// NonFiniteLog writes a line to the log when a kernel first gives NaN or infinities, with what its
// inputs held. There is one line for each device, operator, provider, format and kind, as in the
// counters assay_nan_total and assay_inf_total.
#ifndef ASSAY_SERVER_PASS_NONFINITE_LOG_H_
#define ASSAY_SERVER_PASS_NONFINITE_LOG_H_

#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "assay/v1/case.pb.h"

namespace assay::server {

// Thread-safe.
class NonFiniteLog {
 public:
  // Writes a line (warn; info where the reference has them, too) for each kind and
  // origin of the result that has not been seen before.
  void Saw(std::string_view job, const v1::CaseResult& result);

 private:
  std::mutex mutex_;
  std::set<std::string> seen_;
};

// "a min -4.1 max 4.1 mean 0.01 rms 1 zeros 0 nan 0 inf 0; b …".
std::string InputsText(const v1::CaseResult& result);

}  // namespace assay::server

#endif  // ASSAY_SERVER_PASS_NONFINITE_LOG_H_
