// Follower: watches a job to its end, and reconnects if a connection is lost. CreateJob makes the
// job.
#ifndef ASSAY_CLIENT_LIB_FOLLOW_H_
#define ASSAY_CLIENT_LIB_FOLLOW_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

#include "absl/time/time.h"
#include "assay/v1/job.pb.h"
#include "assay/v1/service.pb.h"
#include "client/lib/connection.h"
#include "grpcpp/support/status.h"

namespace assay::client {

// What to do about a lost connection.
struct FollowOptions {
  absl::Duration reconnect = absl::Seconds(30);  // how long to try again; zero: give up at once
  // Told when the connection is lost and tried again, and of each attempt that reaches nobody; not
  // of others that fail in the same way. May be empty.
  std::function<void(const grpc::Status&)> on_lost;
};

// A request id no other request has: 128 random bits, hexadecimal.
std::string NewRequestId();

// CreateJob with a request id, so that it may be sent again after a connection
// was lost in the middle: a second arrival gives the same job. A daemon that
// cannot be reached in the first place is reported at once.
grpc::Status CreateJob(Connection& connection, const v1::JobSpec& spec,
                       const FollowOptions& options, v1::Job* job);

// Watches one job. Follow blocks in one thread; Stop may be called from another.
class Follower {
 public:
  Follower(Connection& connection, FollowOptions options);

  // Calls `on_event` for each event of the job after `after_sequence`, each
  // stored event exactly once and in order, until the job has finished (OK), the
  // daemon answers an error (one that says when to come again is obeyed), no connection came back
  // within the time allowed (the last error), or Stop was called (CANCELLED).
  grpc::Status Follow(const std::string& job, std::int64_t after_sequence,
                      const std::function<void(const v1::JobEvent&)>& on_event);

  // Ends Follow now.
  void Stop();

 private:
  // Waits; false if Stop was called.
  bool Pause(absl::Duration time);

  Connection& connection_;
  const FollowOptions options_;
  std::mutex mutex_;
  std::condition_variable stops_;
  grpc::ClientContext* context_ = nullptr;  // of the call in progress
  bool stopped_ = false;
};

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_FOLLOW_H_
