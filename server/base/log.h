// The daemon's log: one line a state change on stderr, key=value, so that grep and
// a log collector read it alike:
//
//   ts=2026-03-01T12:00:00.123Z level=info event=worker.started device=cpu:0 pid=4711
//
// Values with spaces, quotes or control characters are quoted and escaped: a line
// stays a line whatever a worker or a client wrote. Thread-safe.
#ifndef ASSAY_SERVER_BASE_LOG_H_
#define ASSAY_SERVER_BASE_LOG_H_

#include <chrono>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>

namespace assay {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

struct LogField {
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, std::integral auto v) : key(k), value(std::to_string(v)) {}
  std::string_view key;
  std::string value;
};

// "debug", "info", "warn" or "error"; false where it is none of them.
bool SetLogLevel(std::string_view level);

// `event` is "subject.what_happened": "worker.started".
void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

// A token bucket: `rate` lines a second, bursts of `burst`. What it refuses it
// counts, so that the next line let through can say how many are missing.
class LogRateLimit {
 public:
  LogRateLimit(double rate, double burst) : rate_(rate), burst_(burst), tokens_(burst) {}
  // True where a line may be written now; then *suppressed is how many were
  // refused since the last one.
  bool Admit(std::int64_t* suppressed);

 private:
  const double rate_;
  const double burst_;
  std::mutex mutex_;
  double tokens_;
  std::int64_t refused_ = 0;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace assay

#endif  // ASSAY_SERVER_BASE_LOG_H_
