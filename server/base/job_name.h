// The form of a job's name: "jobs/k3v9x2mp".
#ifndef ASSAY_SERVER_BASE_JOB_NAME_H_
#define ASSAY_SERVER_BASE_JOB_NAME_H_

#include <string>
#include <string_view>

namespace assay::server {

inline constexpr std::string_view kJobPrefix = "jobs/";

// What is wrong with a name that a client gave, as the description of a field; empty: it is well
// formed. Only a well-formed name is short enough, and plain enough, to be repeated in an error.
std::string FaultOfJobName(std::string_view name);

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_JOB_NAME_H_
