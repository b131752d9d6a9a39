// What a counter grows by that may go back: because its driver was loaded again, or because
// a part of what it sums could not be read. Only a value that stays below for kSettled looks
// is a new beginning, and what it has then is not counted, for it may be a history. Nor is
// what brings it back to where it was, all at once: a part that can be read again. Rather a
// little is lost than a device accused of its past.
#ifndef ASSAY_SERVER_TELEMETRY_RISING_COUNTER_H_
#define ASSAY_SERVER_TELEMETRY_RISING_COUNTER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace assay {

inline constexpr int kSettled = 3;

// Not thread-safe.
template <class Number>
class RisingCounter {
 public:
  // What it has now has been counted.
  explicit RisingCounter(Number value = 0) : last_(value) {}

  // What it has grown by since the look before.
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
  Number peak_ = 0;  // before it began anew; 0 once it is there again
  int below_ = 0;    // looks in a row below `last_`
};

// The sum of counters of parts, some of which cannot be read at times: it never goes back.
// Parts of the first look count whole, later ones from what they have then.
class CounterSum {
 public:
  // The parts that could be read. Nothing where none could.
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

}  // namespace assay

#endif  // ASSAY_SERVER_TELEMETRY_RISING_COUNTER_H_
