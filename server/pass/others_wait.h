// OthersWait waits until other processes have left a device, before something is timed on it.
#ifndef ASSAY_SERVER_PASS_OTHERS_WAIT_H_
#define ASSAY_SERVER_PASS_OTHERS_WAIT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "absl/time/time.h"
#include "server/worker/executor.h"

namespace assay::server {

// Bytes of a device's memory that processes not of this daemon hold; nothing where that is
// not known, as on a processor, which is always shared.
using OthersBytes = std::function<std::optional<std::int64_t>(std::string_view device)>;

// One job's patience with one device. One thread.
class OthersWait {
 public:
  // Zero `patience` or an empty `others`: never waits.
  OthersWait(absl::Duration patience, const OthersBytes& others)
      : left_(patience), others_(others) {}

  // Blocks while others hold memory of `device`, until `cancel` is set or the patience, which
  // all calls share, is spent. Calls `waiting` once with the bytes held, if it waits at all.
  void Wait(std::string_view device, const CancelToken& cancel,
            const std::function<void(std::int64_t held)>& waiting);

 private:
  absl::Duration left_;
  const OthersBytes& others_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_PASS_OTHERS_WAIT_H_
