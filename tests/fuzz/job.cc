#include <memory>
#include <string>
#include <vector>

#include "kernels/ops/op.h"
#include "server/base/wire.h"
#include "server/plan/job_plan.h"
#include "tests/fuzz/fuzz.h"

namespace assay::fuzz {
namespace {

using namespace server;

// A device that is described, and runs nothing.
class Described final : public CaseExecutor {
 public:
  Described(std::string id, std::string_view backend) : id_(std::move(id)) {
    device_.set_id(id_);
    device_.set_name("devices/" + id_);
    device_.set_backend(std::string(backend));
    device_.set_state(v1::DEVICE_STATE_READY);
    device_.set_arena_bytes(std::int64_t{1} << 30);
    for (const Op* op : AllOps()) {
      for (const char* provider : {"builtin", "onednn", "planted/tail"}) {
        v1::Kernel& kernel = kernels_.emplace_back();
        kernel.set_op(std::string(op->name()));
        kernel.set_provider(provider);
        kernel.set_backend(std::string(backend));
        kernel.set_available(true);
      }
    }
  }

  const std::string& device_id() const override { return id_; }
  v1::CaseResult Execute(const v1::CaseSpec&, int, absl::Duration, const CancelToken&) override {
    return {};
  }
  v1::Device Describe() override { return device_; }
  const std::vector<v1::Kernel>& Kernels() const override { return kernels_; }
  absl::Status Release() override { return absl::OkStatus(); }
  absl::Status GiveBack() override { return absl::OkStatus(); }
  absl::Status MeasureCeilings(const CancelToken&) override { return absl::OkStatus(); }

 private:
  const std::string id_;
  v1::Device device_;
  std::vector<v1::Kernel> kernels_;
};

DeviceSet TwoDevices() {
  DeviceSet devices;
  devices.executors.push_back(std::make_unique<Described>("cpu:0", "cpu"));
  devices.executors.push_back(std::make_unique<Described>("cuda:0", "cuda"));
  return devices;
}

}  // namespace

// Every case of an accepted job has all its defaults, and reads as the same case again.
void FuzzJob(std::string_view bytes) {
  static const DeviceSet devices = TwoDevices();
  static const PlanOptions options{
      .suites_folder = FUZZ_SUITES, .max_cases = 200, .check_kernel = [](std::string_view) {
        return absl::OkStatus();
      }};
  v1::JobSpec spec;
  if (!spec.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const absl::StatusOr<JobPlan> plan = PlanJob(spec, devices, options);
  if (!plan.ok()) return RequireNotInternal(plan.status());
  Require(plan->total > 0, "an accepted job has no case");
  for (const DevicePlan& part : plan->devices) {
    for (const v1::CaseSpec& filled : part.cases) {
      std::vector<FieldError> errors;
      const Case read = FromProto(filled, errors);
      Require(errors.empty(), errors.empty() ? "" : errors[0].field + ": " + errors[0].message);
      Require(filled.has_seed() && filled.has_deadline() && !filled.provider().empty(),
              "a case lacks a default");
      Require(!ReproLine(filled, part.device).empty(), "a case has no line that repeats it");
    }
  }
}

}  // namespace assay::fuzz
