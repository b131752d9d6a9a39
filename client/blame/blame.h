// Blame: decides whether a device, a library or neither is at fault for a case that failed.
//
// A case that failed is run again: on its own device, there with other providers, and on sibling
// devices. Each rerun has a vote. Two tables turn the votes into a code of a qualification
// ("A101"): in each, the first row that fits decides. `assay qualify` and `assay fleet run` read
// the same tables, and `assay qualify --codes` prints them. All functions are pure.
#ifndef ASSAY_CLIENT_BLAME_BLAME_H_
#define ASSAY_CLIENT_BLAME_BLAME_H_

#include <string>
#include <string_view>
#include <vector>

namespace assay::client {

// What was wrong with a case.
enum class Seen {
  kWrong,     // a wrong result
  kUnsteady,  // launches of the same kernel differed
  kCrashed,   // its worker died
  kFault,     // its device reported a fault
  kSetAside,  // its device was in quarantine before the case began
  kLate,      // its kernel did not end in its time
  kAccused,   // the fleet's comparison accuses the device
};

// What one rerun says.
enum class Vote { kUnknown, kAgain, kRight };
std::string_view Word(Vote vote);  // "unknown", "again", "right"

// Whether any of several reruns said so. Neither: none came to its end.
struct Votes {
  bool again = false, right = false;

  void Add(Vote vote);
};

// A case that failed, and the votes of its reruns.
struct Reruns {
  Seen seen = Seen::kWrong;
  Votes here;      // on the same device, with the same provider
  Votes others;    // on the same device, with other providers
  Votes siblings;  // on other devices, with the same provider
};

// The code of a case that was run again. Empty if no row fits: then the reruns say nothing.
std::string_view BlameOf(const Reruns& reruns);

// The code of another case of the same device and the same kind of trouble, which was run again.
struct Precedent {
  std::string_view code;
  bool same_provider = false;
};

// The code of a case that was not run again. It depends on what the reruns of others came to.
std::string_view BlameWithoutRerun(Seen seen, const std::vector<Precedent>& precedents);

// The tables as rows of words, the heading first, for people.
std::vector<std::vector<std::string>> BlameRows();
std::vector<std::vector<std::string>> BlameWithoutRerunRows();

}  // namespace assay::client

#endif  // ASSAY_CLIENT_BLAME_BLAME_H_
