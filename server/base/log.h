// The daemon's log. Each state change is one line of key=value on stderr, for grep and for log
// collectors:
//
//   ts=2026-03-01T12:00:00.123Z level=info event=worker.started device=cpu:0 pid=4711
//
// A value with spaces, quotes or control characters is quoted and escaped, so a value never breaks
// a line. Thread-safe.
#ifndef ASSAY_SERVER_BASE_LOG_H_
#define ASSAY_SERVER_BASE_LOG_H_

#include <chrono>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>

namespace assay::server {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

struct LogField {
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, std::integral auto v) : key(k), value(std::to_string(v)) {}
  std::string_view key;
  std::string value;
};

// Sets the lowest level that is written: "debug", "info", "warn" or "error". Returns false for any
// other word.
bool SetLogLevel(std::string_view level);

// Writes a line. `event` is "subject.what_happened", such as "worker.started".
void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

// Limits how many lines are written: `rate` lines a second, with bursts of `burst` lines. It counts
// the lines that it refuses, so that the next line can say how many are missing. Thread-safe.
class LogRateLimit {
 public:
  LogRateLimit(double rate, double burst) : rate_(rate), burst_(burst), tokens_(burst) {}
  // Whether a line may be written now. If so, sets *suppressed to the number of lines that were
  // refused since the last written one.
  bool Admit(std::int64_t* suppressed);

 private:
  const double rate_;
  const double burst_;
  std::mutex mutex_;
  double tokens_;
  std::int64_t refused_ = 0;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_LOG_H_
