// Finds the backends of a daemon that can be self-tested. They are those with planted kernels:
// kernels that are wrong on purpose.
#ifndef ASSAY_CLIENT_QUALIFY_SELFTESTS_H_
#define ASSAY_CLIENT_QUALIFY_SELFTESTS_H_

#include <map>
#include <string>

#include "client/lib/connection.h"
#include "grpcpp/support/status.h"

namespace assay::client {

// Of a backend that has such kernels.
struct Selftest {
  bool possible = false;
  std::string why_not;  // none of them can run; empty where one can
};

// By backend. One that is not here has nothing to be tested by.
using Selftests = std::map<std::string, Selftest>;

// Asks the daemon.
grpc::Status FindSelftests(Connection& connection, Selftests& selftests);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_QUALIFY_SELFTESTS_H_
