// StoreCheck reads all that a store of any size has, once, on a thread of its own and at low
// priority: every job with its plans, results and events, every baseline, the indices, and the list
// of free pages. What cannot be read is logged by its name, and the store then counts as damaged.
//
// The opening checks the form of a small file, and nothing of a large one. It never looks into
// records.
//
// It reads in pieces, one job or a few hundred rows each, and holds nothing in between: no write
// waits for it, and the journal does not grow because of it. SQLite's quick_check of a whole table
// would do both, and could not be ended before it is through.
#ifndef ASSAY_SERVER_STORE_STORE_CHECK_H_
#define ASSAY_SERVER_STORE_STORE_CHECK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "server/store/store_reader.h"

namespace assay::server {

struct Damage {
  enum class Of : std::uint8_t { kJob, kBaseline, kFile };
  Of of;
  std::string name;  // "jobs/k3v9x2mp", "baselines/night"; of the file: which part
  absl::Status why;
};

// Reads the store until `stop` says so. `damaged` gets each thing that cannot be read.
void CheckStore(StoreReader& reader, const std::stop_token& stop,
                const std::function<void(const Damage&)>& damaged);

class StoreCheck {
 public:
  // `found_damage` is called on the check's thread, at most once.
  StoreCheck(std::unique_ptr<StoreReader> reader, std::function<void()> found_damage);

 private:
  void Run(const std::stop_token& stop, const std::function<void()>& found_damage);

  const std::unique_ptr<StoreReader> reader_;
  std::jthread thread_;  // last: stopped and joined before what it uses ends
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_STORE_STORE_CHECK_H_
