// A node that could not be asked, or not to the end: listed, never dropped.
#ifndef ASSAY_CLIENT_FLEET_MISSING_H_
#define ASSAY_CLIENT_FLEET_MISSING_H_

#include <cstdint>
#include <string>

namespace assay {

struct MissingNode {
  std::string target;
  std::string reason;
  std::int64_t results = 0;  // that came before it was lost; they are compared
};

}  // namespace assay

#endif  // ASSAY_CLIENT_FLEET_MISSING_H_
