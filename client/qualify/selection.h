// Selects the devices of a node that are qualified, and lists the missing ones. All functions are
// pure.
#ifndef ASSAY_CLIENT_QUALIFY_SELECTION_H_
#define ASSAY_CLIENT_QUALIFY_SELECTION_H_

#include <string>
#include <vector>

#include "assay/v1/device.pb.h"
#include "client/qualify/conduct.h"

namespace assay::client {

struct Selection {
  std::vector<const v1::Device*> chosen;  // of those that were given
  std::vector<Missing> missing;
};

// Of what the daemon at `target` lists. Devices outlive the selection.
Selection Select(const QualifyOptions& options, const std::string& target,
                 const std::vector<v1::Device>& devices);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_QUALIFY_SELECTION_H_
