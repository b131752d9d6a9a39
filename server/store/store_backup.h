// Copies a store while it is in use.
#ifndef ASSAY_SERVER_STORE_STORE_BACKUP_H_
#define ASSAY_SERVER_STORE_STORE_BACKUP_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace assay::server {

// As Store::Backup. The copy is made in the folder (assay.db.backup), read in pieces, and removed.
// It has what was committed at one moment. When `stop` becomes true while the copy is made,
// UNAVAILABLE says that the daemon ends. RESOURCE_EXHAUSTED before a byte is written if the disk
// has no room for it.
absl::Status BackupStore(const std::string& folder, std::atomic<bool>& stop,
                         absl::FunctionRef<absl::Status(std::string_view, std::int64_t)> write);

// Removes the copy that a daemon left which was killed.
void RemoveBackup(const std::string& folder);

}  // namespace assay::server

#endif  // ASSAY_SERVER_STORE_STORE_BACKUP_H_
