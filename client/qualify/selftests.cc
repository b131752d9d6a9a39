#include "client/qualify/selftests.h"

#include "absl/strings/str_cat.h"

namespace assay::client {

grpc::Status FindSelftests(Connection& connection, Selftests& selftests) {
  v1::ListKernelsRequest request;
  request.set_show_planted(true);
  v1::ListKernelsResponse response;
  grpc::Status status = Ask(connection, &Stub::ListKernels, request, &response);
  for (const v1::Kernel& kernel : response.kernels()) {
    if (!kernel.has_planted()) continue;
    Selftest& selftest = selftests[kernel.backend()];
    selftest.possible = selftest.possible || kernel.available();
    if (selftest.why_not.empty()) {
      selftest.why_not = absl::StrCat(
          "no self-test can be made: ", kernel.op(), " ", kernel.provider(), " is not available",
          kernel.unavailable_reason().empty() ? "" : ": ", kernel.unavailable_reason());
    }
  }
  for (auto& [backend, selftest] : selftests) {
    if (selftest.possible) selftest.why_not.clear();
  }
  return status;
}

}  // namespace assay::client
