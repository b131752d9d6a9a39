#include "server/auth/audit_trail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "google/protobuf/util/json_util.h"
#include "kernels/text/cat.h"

namespace assay::server {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Appends the events of the text, the last line first.
void TakeFromEnd(std::string_view text, std::size_t most, std::vector<v1::AuditEvent>& events) {
  while (!text.empty() && events.size() < most) {
    text.remove_suffix(text.back() == '\n' ? 1 : 0);
    const std::size_t before = text.rfind('\n');
    const std::size_t begin = before == text.npos ? 0 : before + 1;
    v1::AuditEvent event;
    const std::string line(text.substr(begin));
    if (google::protobuf::util::JsonStringToMessage(line, &event).ok()) {
      events.push_back(std::move(event));
    }
    text = text.substr(0, begin);
  }
}

}  // namespace

AuditTrail::AuditTrail(const std::string& folder, std::int64_t most_bytes)
    : path_(Cat(folder, "/audit.jsonl")),
      older_path_(Cat(folder, "/audit.1.jsonl")),
      most_bytes_(most_bytes) {
  const std::lock_guard lock(mutex_);
  Open();
  // A line that was cut when the daemon was killed must not take the next one with it.
  if (bytes_ > 0 && write(file_, "\n", 1) == 1) ++bytes_;
}

AuditTrail::~AuditTrail() {
  if (file_ >= 0) close(file_);
}

void AuditTrail::Open() {
  file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  struct stat found {};
  bytes_ = file_ >= 0 && fstat(file_, &found) == 0 ? found.st_size : 0;
}

bool AuditTrail::HasRoomFor(const std::string& who) {
  constexpr std::size_t kMostCallers = 4096;
  constexpr double kPerSecond = 5, kAtOnce = 1000;
  if (callers_.size() >= kMostCallers && !callers_.contains(who)) callers_.clear();
  std::int64_t before = 0;
  if (callers_.try_emplace(who, kPerSecond, kAtOnce).first->second.Admit(&before)) return true;
  if (crowded_.Admit(&before)) Log(LogLevel::kWarn, "audit.crowded", {{"who", who}});
  return false;
}

void AuditTrail::Add(const v1::AuditEvent& event) {
  std::string line;
  if (!google::protobuf::util::MessageToJsonString(event, &line).ok()) return;
  line += '\n';
  const std::lock_guard lock(mutex_);
  if (!HasRoomFor(event.who())) return;
  if (bytes_ > 0 && bytes_ + static_cast<std::int64_t>(line.size()) > most_bytes_) {
    close(std::exchange(file_, -1));
    (void)std::rename(path_.c_str(), older_path_.c_str());
  }
  if (file_ < 0) Open();
  const ssize_t written = file_ < 0 ? -1 : write(file_, line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) {
    bytes_ += written;
    return;
  }
  const int error = written < 0 ? errno : ENOSPC;
  // A part of a line would take the next one with it.
  if (written > 0) (void)!ftruncate(file_, bytes_);
  std::int64_t before = 0;
  if (!unwritten_.Admit(&before)) return;
  Log(LogLevel::kWarn, "audit.not_kept",
      {{"file", path_}, {"reason", std::generic_category().message(error)}});
}

std::vector<v1::AuditEvent> AuditTrail::Newest(std::size_t most) {
  std::string newer, older;
  {
    const std::lock_guard lock(mutex_);
    newer = TextOf(path_);
    older = TextOf(older_path_);
  }
  std::vector<v1::AuditEvent> events;
  TakeFromEnd(newer, most, events);
  TakeFromEnd(older, most, events);
  return events;
}

}  // namespace assay::server
