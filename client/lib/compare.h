// Sends a user's tensors to a daemon in pieces and returns the verdict.
#ifndef ASSAY_CLIENT_LIB_COMPARE_H_
#define ASSAY_CLIENT_LIB_COMPARE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "assay/v1/compare.pb.h"
#include "client/lib/connection.h"
#include "client/lib/npy.h"

namespace assay::client {

// A file and what its elements are taken for.
struct CompareTensor {
  std::unique_ptr<NpyFile> file;
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;

  // Extents in elements of `dtype`: two e2m1 lie in each byte of the innermost axis.
  std::vector<std::int64_t> Shape() const;
};

// The format of a file's elements. `own` is the option that speaks of this file alone,
// and its text, and must fit it; `common` speaks of all, and is taken where it fits.
// Empty: not said. INVALID_ARGUMENT names the file, what it holds and what would be right.
struct DtypeOption {
  std::string_view option;  // "--actual-dtype"
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
};
absl::StatusOr<v1::DType> FormatOf(const NpyFile& file, const DtypeOption& own,
                                   const DtypeOption& common);

// Sends the header and then the tensors, which have the wire's numbers (nullptr: none),
// and receives the result. DATA_LOSS where a file changed under it.
grpc::Status CompareTensors(Connection& connection, const v1::CompareHeader& header,
                            const std::vector<const CompareTensor*>& tensors,
                            v1::CaseResult* result);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_COMPARE_H_
