#include "client/lib/follow.h"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/lib/errors.h"
#include "client/lib/first_call.h"
#include "client/lib/steady.h"

namespace assay::client {
namespace {

// How long an attempt to come back may wait for a connection before the next.
constexpr absl::Duration kRetryPause = absl::Milliseconds(200);

// Tells of each loss once, however often an attempt to come back fails in the same way.
class Losses {
 public:
  explicit Losses(const FollowOptions& options) : options_(options) {}

  void Tell(const grpc::Status& status) {
    if (told_ == status.error_code()) return;
    if (!NeverConnected(status)) told_ = status.error_code();
    if (options_.on_lost) options_.on_lost(status);
  }
  // The next failure is a new loss.
  void Alive() { told_.reset(); }

 private:
  const FollowOptions& options_;
  std::optional<grpc::StatusCode> told_;
};

}  // namespace

std::string NewRequestId() {
  std::array<std::uint64_t, 2> random{};
  // std::random_device asks the processor, which takes 20 µs a number on some virtual machines.
  if (getentropy(random.data(), sizeof random) != 0) {
    std::random_device other;
    for (std::uint64_t& half : random) half = std::uint64_t{other()} << 32 | other();
  }
  return absl::StrFormat("%016x%016x", random[0], random[1]);
}

grpc::Status CreateJob(Connection& connection, const v1::JobSpec& spec,
                       const FollowOptions& options, v1::Job* job) {
  v1::CreateJobRequest request;
  *request.mutable_spec() = spec;
  request.set_request_id(NewRequestId());
  const absl::Duration give_up = SteadyNow() + options.reconnect;
  Losses losses(options);
  for (bool first = true;; first = false) {
    grpc::Status status = FirstCall(connection, [&] {
      grpc::ClientContext context;
      SetDeadline(context);
      return connection.stub().CreateJob(&context, request, job);
    });
    // A first refusal is told at once. After a lost connection the daemon may be asked for this job
    // already, and a limit that is reached only delays the answer.
    const std::optional<absl::Duration> delay = RetryDelayOf(status);
    const bool again = !first && (NeverConnected(status) || delay);
    const absl::Duration pause = delay.value_or(kRetryPause);
    if (!(ConnectionLost(status) || again) ||
        SteadyNow() + delay.value_or(absl::ZeroDuration()) >= give_up)
      return status;
    losses.Tell(status);
    std::this_thread::sleep_for(absl::ToChronoMilliseconds(pause));
  }
}

Follower::Follower(Connection& connection, FollowOptions options)
    : connection_(connection), options_(std::move(options)) {}

void Follower::Stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  if (context_ != nullptr) context_->TryCancel();
  stops_.notify_all();
}

bool Follower::Pause(absl::Duration time) {
  std::unique_lock lock(mutex_);
  stops_.wait_for(lock, absl::ToChronoMilliseconds(time), [this] { return stopped_; });
  return !stopped_;
}

grpc::Status Follower::Follow(const std::string& job, std::int64_t after_sequence,
                              const std::function<void(const v1::JobEvent&)>& on_event) {
  absl::Duration last_alive = SteadyNow();
  Losses losses(options_);
  for (;;) {
    const absl::Duration begin = SteadyNow();
    bool heard = false;
    grpc::ClientContext context;
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return {grpc::StatusCode::CANCELLED, "left"};
      context_ = &context;
    }
    v1::WatchJobRequest request;
    request.set_name(job);
    request.set_after_sequence(after_sequence);
    auto stream = connection_.stub().WatchJob(&context, request);
    bool finished = false;
    v1::JobEvent event;
    while (stream->Read(&event)) {
      // Sequence 0 is progress, which is not stored; a stored event seen before
      // the connection broke is not told twice.
      if (event.sequence() != 0 && event.sequence() <= after_sequence) continue;
      if (event.sequence() != 0) {
        after_sequence = event.sequence();
        heard = true;  // progress is told anew to each who comes, and proves nothing
      }
      finished = finished || event.has_finished();
      on_event(event);
    }
    grpc::Status status = stream->Finish();
    bool stopped = false;
    {
      const std::lock_guard lock(mutex_);
      context_ = nullptr;
      stopped = stopped_;
    }
    if (finished) return grpc::Status::OK;
    if (stopped) return {grpc::StatusCode::CANCELLED, "left"};
    // A stream that ends well before the job did, or that nobody here cancelled, was cut by a
    // daemon that stops.
    if (status.ok() || status.error_code() == grpc::StatusCode::CANCELLED) {
      status = {grpc::StatusCode::UNAVAILABLE, "Socket closed"};
    }
    // A stream may be silent for long and yet alive: the time allowed counts
    // from its loss, not from its last event. One refused at once was never alive.
    const absl::Duration now = SteadyNow();
    if (heard || (!NeverConnected(status) && now - begin > absl::Seconds(1))) {
      last_alive = now;
      losses.Alive();
    }
    const std::optional<absl::Duration> delay = RetryDelayOf(status);
    if (!IsTransient(status) && !delay) return status;
    if (now + delay.value_or(absl::ZeroDuration()) - last_alive >= options_.reconnect)
      return status;
    losses.Tell(status);
    if (!Pause(delay.value_or(kRetryPause))) return {grpc::StatusCode::CANCELLED, "left"};
  }
}

}  // namespace assay::client
