#include "server/base/log.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "kernels/text/cat.h"
#include "kernels/text/visible.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace assay::server {
namespace {

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("assay",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_formatter(std::make_unique<spdlog::pattern_formatter>(
        "ts=%Y-%m-%dT%H:%M:%S.%eZ level=%l %v", spdlog::pattern_time_type::utc));
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *logger;
}

constexpr std::array<std::pair<std::string_view, spdlog::level::level_enum>, 4> kLevels = {{
    {"debug", spdlog::level::debug},
    {"info", spdlog::level::info},
    {"warn", spdlog::level::warn},
    {"error", spdlog::level::err},
}};

bool IsPlain(std::string_view value) {
  return !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
  });
}

}  // namespace

bool SetLogLevel(std::string_view level) {
  for (const auto& [name, value] : kLevels) {
    if (name != level) continue;
    Logger().set_level(value);
    return true;
  }
  return false;
}

void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  const auto spd_level = kLevels[static_cast<std::size_t>(level)].second;
  if (!Logger().should_log(spd_level)) return;
  std::string line = Cat("event=", event);
  for (const LogField& field : fields) {
    Append(&line, " ", field.key, "=");
    if (IsPlain(field.value)) {
      Append(&line, field.value);
    } else {
      Append(&line, "\"", Visible(absl::Utf8SafeCEscape(field.value)), "\"");
    }
  }
  Logger().log(spd_level, line);
}

bool LogRateLimit::Admit(std::int64_t* suppressed) {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  tokens_ = std::min(burst_, tokens_ + rate_ * std::chrono::duration<double>(now - last_).count());
  last_ = now;
  if (tokens_ < 1) {
    ++refused_;
    return false;
  }
  tokens_ -= 1;
  *suppressed = std::exchange(refused_, 0);
  return true;
}

}  // namespace assay::server
