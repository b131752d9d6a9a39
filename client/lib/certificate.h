// The client's own certificate, of which only the end of its validity matters here.
#ifndef ASSAY_CLIENT_LIB_CERTIFICATE_H_
#define ASSAY_CLIENT_LIB_CERTIFICATE_H_

#include <string>

#include "absl/time/time.h"

namespace assay::client {

// When the first certificate of a text of PEM expires; never, if the text has none that can be
// read.
absl::Time ExpiryOf(const std::string& pem);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_CERTIFICATE_H_
