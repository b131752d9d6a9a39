// The newest lines of the audit log, kept in the daemon's state folder, so that ListAuditEvents has
// them after a new start, too. The log itself has all of them (Audit in access.h).
//
// Two files of one JSON object a line: audit.jsonl, and audit.1.jsonl with what came before. When
// the first is full, it takes the place of the second. They are not synced: after a loss of power
// the last events may be in the log alone. An event that cannot be written is in the log alone,
// too.
//
// A caller who makes very many calls does not push out what others did: of one caller's events the
// files take 1,000 at once and five a second, and the log has the rest.
//
// Thread-safe.
#ifndef ASSAY_SERVER_AUTH_AUDIT_TRAIL_H_
#define ASSAY_SERVER_AUTH_AUDIT_TRAIL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "assay/v1/service.pb.h"
#include "server/base/log.h"

namespace assay::server {

class AuditTrail {
 public:
  // `most_bytes`: the most that one file takes; 4 MiB hold some 16,000 events.
  explicit AuditTrail(const std::string& folder, std::int64_t most_bytes = std::int64_t{4} << 20);
  ~AuditTrail();
  AuditTrail(const AuditTrail&) = delete;
  AuditTrail& operator=(const AuditTrail&) = delete;

  void Add(const v1::AuditEvent& event);

  // The newest events, the newest first. Lines that are none are passed over.
  std::vector<v1::AuditEvent> Newest(std::size_t most);

 private:
  void Open();
  bool HasRoomFor(const std::string& who);

  const std::string path_, older_path_;
  const std::int64_t most_bytes_;
  LogRateLimit unwritten_{/*rate=*/1, /*burst=*/1};
  LogRateLimit crowded_{/*rate=*/1, /*burst=*/1};

  std::mutex mutex_;
  int file_ = -1;                                // mutex_
  std::int64_t bytes_ = 0;                       // mutex_; of the file
  std::map<std::string, LogRateLimit> callers_;  // mutex_; what each may still add, by who
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_AUTH_AUDIT_TRAIL_H_
