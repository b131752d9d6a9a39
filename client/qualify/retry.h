// Retry: a failed case and its reruns. client/blame decides from them who is at fault.
#ifndef ASSAY_CLIENT_QUALIFY_RETRY_H_
#define ASSAY_CLIENT_QUALIFY_RETRY_H_

#include <cstddef>
#include <string_view>
#include <vector>

#include "assay/v1/case.pb.h"

namespace assay::client {

// What can be wrong with a result that a second run may explain.
enum class Trouble {
  kNone,
  kWrong,    // IsWrong
  kCrashed,  // its worker died, or the device reported a fault
  kLate,     // its kernel did not end in its time
};
Trouble TroubleOf(const v1::CaseResult& result);

// FAILED for what it computed, not for how long it took; and the latter.
bool IsWrong(const v1::CaseResult& result);
bool IsSlow(const v1::CaseResult& result);

// Launches of the same kernel differed.
bool IsUnsteady(const v1::CaseResult& result);

// Its worker was killed by an operator, or by the host's kernel where memory is short.
bool IsKilled(const v1::CaseResult& result);

// A failed case run again.
struct Retry {
  v1::CaseResult failed;                // as it was
  std::vector<v1::CaseResult> here;     // on the same device, its provider and others
  std::vector<v1::CaseResult> sibling;  // on other devices of the node, the same provider
};

// Which results of this trouble are worth a retry: at most `most`, of different operators,
// providers and formats first.
std::vector<v1::CaseResult> WorthRetrying(const std::vector<v1::CaseResult>& results,
                                          Trouble trouble, std::size_t most);

// The code of a result in trouble. One that was not run again takes the outcome of its device's
// others of the same trouble that were.
std::string_view CodeOfTrouble(const v1::CaseResult& failed, const std::vector<Retry>& retries);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_QUALIFY_RETRY_H_
