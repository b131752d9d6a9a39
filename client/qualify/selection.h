// Which of a node's devices are qualified, and which are missed. Pure functions.
#ifndef ASSAY_CLIENT_QUALIFY_SELECTION_H_
#define ASSAY_CLIENT_QUALIFY_SELECTION_H_

#include <string>
#include <vector>

#include "assay/v1/device.pb.h"
#include "client/qualify/conduct.h"

namespace assay {

struct Selection {
  std::vector<const v1::Device*> chosen;  // of those that were given
  std::vector<Missing> missing;
};

// Of what the daemon at `target` lists. Devices outlive the selection.
Selection Select(const QualifyOptions& options, const std::string& target,
                 const std::vector<v1::Device>& devices);

}  // namespace assay

#endif  // ASSAY_CLIENT_QUALIFY_SELECTION_H_
