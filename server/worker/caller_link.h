// The way to the caller whose function is validated, for the code that runs the cases.
#ifndef ASSAY_SERVER_WORKER_CALLER_LINK_H_
#define ASSAY_SERVER_WORKER_CALLER_LINK_H_

#include <optional>

#include "absl/time/time.h"
#include "assay/v1/external.pb.h"
#include "server/worker/message_source.h"

namespace assay::server {

// A caller lives as long as a job has cases for it. It may be gone long before: then it has a
// failure, and no case can run. Its source gives the answers of the caller. Thread-safe, but for
// what MessageSource says.
class CallerLink : public MessageSource<v1::ValidateExternalRequest> {
 public:
  // Sends the message on, and takes it then. False: there is no room now; the source's wake is
  // called when there is. After a failure messages are taken and dropped.
  virtual bool Give(v1::ValidateExternalResponse* ask) = 0;
  // Why no case of the caller can run any more; nothing while cases can.
  virtual std::optional<v1::Finding> failure() = 0;
  // Sets the failure, unless there is one.
  virtual void Fail(v1::Finding why) = 0;
  // How long a launch may take, from when the caller is asked to when everything has come.
  virtual absl::Duration launch_deadline() const = 0;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_CALLER_LINK_H_
