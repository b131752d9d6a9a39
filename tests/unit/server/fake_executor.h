// A device whose cases end as a test says, without a process or a kernel.
#ifndef ASSAY_TESTS_UNIT_SERVER_FAKE_EXECUTOR_H_
#define ASSAY_TESTS_UNIT_SERVER_FAKE_EXECUTOR_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/base/finding.h"
#include "server/base/wire.h"
#include "server/worker/executor.h"

namespace assay::server {

// Lets cases through one by one, or all. Thread-safe.
class CaseGate {
 public:
  // Waits for a pass or a cancellation; false for the latter.
  bool Wait(const CancelToken& cancel) {
    std::unique_lock guard(mutex_);
    ++waiting_;
    changed_.notify_all();
    // The token has no way to wake: look again as executors do.
    while (passes_ == 0 && !cancel.cancelled()) {
      changed_.wait_for(guard, std::chrono::milliseconds(2));
    }
    --waiting_;
    if (passes_ == 0) return false;
    --passes_;
    return true;
  }
  void Let(int cases) {
    const std::lock_guard guard(mutex_);
    passes_ += cases;
    changed_.notify_all();
  }
  // Whether one waits now.
  bool Arrived() {
    const std::lock_guard guard(mutex_);
    return waiting_ > 0 && passes_ == 0;
  }
  // Until a case waits; false after two minutes.
  bool AwaitArrival() {
    std::unique_lock guard(mutex_);
    return changed_.wait_for(guard, std::chrono::seconds(120),
                             [this] { return waiting_ > 0 && passes_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int passes_ = 0;
  int waiting_ = 0;
};

class FakeExecutor final : public CaseExecutor {
 public:
  using Run = std::function<v1::CaseResult(const v1::CaseSpec&, const CancelToken&)>;

  explicit FakeExecutor(std::string id) : id_(std::move(id)) {
    run = [this](const v1::CaseSpec& spec, const CancelToken&) { return Passed(spec); };
  }

  v1::CaseResult Passed(const v1::CaseSpec& spec) const {
    v1::CaseResult result;
    *result.mutable_spec() = spec;
    result.set_name(spec.name());
    result.set_device(id_);
    result.set_verdict(v1::VERDICT_PASSED);
    return result;
  }
  v1::CaseResult Without(const v1::CaseSpec& spec, v1::Verdict verdict, v1::Reason reason) const {
    return ResultWithoutRun(spec, id_, verdict, MakeFinding(reason, "said by the test"));
  }
  // Each case waits at the gate first.
  void GateBy(CaseGate& gate) {
    run = [this, &gate](const v1::CaseSpec& spec, const CancelToken& cancel) {
      return gate.Wait(cancel) ? Passed(spec)
                               : Without(spec, v1::VERDICT_SKIPPED, v1::REASON_CANCELLED);
    };
  }

  const std::string& device_id() const override { return id_; }
  v1::CaseResult Execute(const v1::CaseSpec& spec, int index, absl::Duration limit,
                         const CancelToken& cancel) override {
    {
      const std::lock_guard guard(mutex_);
      if (remember) executed_.push_back(spec);
      last_limit_ = limit;
    }
    v1::CaseResult result = run(spec, cancel);
    result.set_index(index);
    return result;
  }
  bool SharesLaunches() const override { return lead != nullptr && !in_turn; }
  v1::CaseResult ExecuteLeading(const v1::CaseSpec& spec, int index, absl::Duration limit,
                                const CancelToken& cancel, CasesAhead& ahead) override {
    if (lead) lead(index, ahead);
    return Execute(spec, index, limit, cancel);
  }
  Profile ProfileCase(Profiler profiler, const v1::CaseSpec& spec, absl::Duration limit,
                      const CancelToken& cancel) override {
    return profile ? profile(profiler, spec)
                   : CaseExecutor::ProfileCase(profiler, spec, limit, cancel);
  }
  v1::Device Describe() override {
    v1::Device device;
    device.set_id(id_);
    device.set_name("devices/" + id_);
    device.set_backend(id_.substr(0, id_.find(':')));
    device.set_state(state);
    device.set_arena_bytes(arena_bytes);
    device.set_leased_bytes(leased_bytes);
    return device;
  }
  const std::vector<v1::Kernel>& Kernels() const override {
    if (on_kernels) on_kernels();
    return kernels;
  }
  absl::Status Release() override {
    ++released;
    return absl::OkStatus();
  }
  absl::Status GiveBack() override {
    ++given_back;
    return absl::OkStatus();
  }
  absl::Status MeasureCeilings(const CancelToken& cancel) override {
    return on_measure ? on_measure(cancel) : absl::OkStatus();
  }

  void AddKernel(std::string_view op, std::string_view provider, bool available = true) {
    v1::Kernel& kernel = kernels.emplace_back();
    kernel.set_op(std::string(op));
    kernel.set_provider(std::string(provider));
    kernel.set_backend(id_.substr(0, id_.find(':')));
    kernel.set_available(available);
  }
  v1::DeviceState state = v1::DEVICE_STATE_READY;
  std::int64_t leased_bytes = 0;
  int released = 0, given_back = 0;

  std::vector<v1::CaseSpec> executed() const {
    const std::lock_guard guard(mutex_);
    return executed_;
  }
  absl::Duration last_limit() const {
    const std::lock_guard guard(mutex_);
    return last_limit_;
  }

  Run run;                                                        // set before the first job
  std::function<Profile(Profiler, const v1::CaseSpec&)> profile;  // likewise
  std::function<void(int, CasesAhead&)> lead;                     // of each that is executed
  bool in_turn = false;                                           // shares no launches
  bool remember = true;                                           // what was executed
  std::function<void()> on_kernels;                               // called by Kernels
  std::function<absl::Status(const CancelToken&)> on_measure;     // called by MeasureCeilings
  std::int64_t arena_bytes = std::int64_t{1} << 30;
  std::vector<v1::Kernel> kernels;

 private:
  const std::string id_;
  mutable std::mutex mutex_;
  std::vector<v1::CaseSpec> executed_;
  absl::Duration last_limit_;
};

// Holds the threads that ask a device for its kernels, as the manager's plan does, until they are
// released or this object is gone. Thread-safe.
class HeldPlans {
 public:
  explicit HeldPlans(FakeExecutor& device) {
    device.on_kernels = [state = state_] {
      std::unique_lock lock(state->mutex);
      ++state->waiting;
      state->changed.notify_all();
      state->changed.wait(lock, [&] { return !state->held; });
      --state->waiting;
    };
  }
  ~HeldPlans() { Release(); }
  HeldPlans(const HeldPlans&) = delete;
  HeldPlans& operator=(const HeldPlans&) = delete;

  // Until a thread is held; false after two minutes.
  bool AwaitBegun() {
    std::unique_lock lock(state_->mutex);
    return state_->changed.wait_for(lock, std::chrono::seconds(120),
                                    [this] { return state_->waiting > 0 && state_->held; });
  }
  void Release() { Set(false); }
  void Hold() { Set(true); }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool held = true;
    int waiting = 0;
  };

  void Set(bool held) {
    const std::lock_guard lock(state_->mutex);
    state_->held = held;
    state_->changed.notify_all();
  }

  const std::shared_ptr<State> state_ = std::make_shared<State>();  // the device may keep it longer
};

}  // namespace assay::server

#endif  // ASSAY_TESTS_UNIT_SERVER_FAKE_EXECUTOR_H_
