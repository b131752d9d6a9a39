// The files that every worker may use, as rules of kernels/confine/file_rights.h.
#ifndef ASSAY_SERVER_CONTAINMENT_FILE_RULES_H_
#define ASSAY_SERVER_CONTAINMENT_FILE_RULES_H_

#include <string_view>

#include "kernels/confine/file_rights.h"

namespace assay::server {

// The rules for every worker: the system's folders, `worker`'s own tree, and the plain devices.
// With `accelerators`, the device files of GPUs are among them, and shared memory.
FileRules RulesForWorkers(std::string_view worker, bool accelerators);

// The rules for a compiler: the system's programs, libraries and headers, and /dev/null. Of /etc it
// reads what the loader needs, and nothing of /proc.
FileRules RulesForCompilers();

}  // namespace assay::server

#endif  // ASSAY_SERVER_CONTAINMENT_FILE_RULES_H_
