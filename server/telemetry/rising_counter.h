// Measures the growth of a counter that may go back. It goes back when its driver is loaded again,
// or when a part of its sum cannot be read.
//
// If the value stays below the last one for kSettled readings, counting starts from the new value.
// What the counter already held is ignored, because it may be old. If the value then jumps back to
// where it was, that jump is ignored too, because a part can be read again. So a little may be
// lost, but a device is never accused of its past.
#ifndef ASSAY_SERVER_TELEMETRY_RISING_COUNTER_H_
#define ASSAY_SERVER_TELEMETRY_RISING_COUNTER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace assay::server {

inline constexpr int kSettled = 3;

// Not thread-safe.
template <class Number>
class RisingCounter {
 public:
  // `value` is the reading now. It has been counted.
  explicit RisingCounter(Number value = 0) : last_(value) {}

  // The growth since the last reading.
  Number Look(Number value) {
    if (value < last_) {
      if (++below_ == kSettled) {
        peak_ = std::max(peak_, last_);
        last_ = value;
        below_ = 0;
      }
      return 0;
    }
    const Number from = last_ < peak_ && value >= peak_ ? peak_ : last_;
    last_ = value;
    below_ = 0;
    if (value >= peak_) peak_ = 0;
    return value - from;
  }

 private:
  Number last_;
  Number peak_ = 0;  // the value before counting started again; 0 when it is reached again
  int below_ = 0;    // readings in a row below `last_`
};

// The sum of the counters of several parts. It never goes back, although some parts cannot be read
// at times. Parts of the first reading count whole. A later part counts from its first value.
class CounterSum {
 public:
  // Takes the parts that could be read and returns the sum. Nothing if no part could be read.
  std::optional<std::int64_t> Look(const std::map<std::string, std::int64_t>& parts) {
    if (parts.empty()) return std::nullopt;
    const bool first = parts_.empty();
    for (const auto& [name, value] : parts) {
      const auto [part, is_new] = parts_.try_emplace(name, first ? 0 : value);
      sum_ += part->second.Look(value);
    }
    return sum_;
  }

 private:
  std::map<std::string, RisingCounter<std::int64_t>> parts_;
  std::int64_t sum_ = 0;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_TELEMETRY_RISING_COUNTER_H_
