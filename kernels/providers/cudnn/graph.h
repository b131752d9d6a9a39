// Builds a graph of cuDNN, from its descriptors to a plan that runs.
//
// After the first error nothing more is done, and status() keeps the error. For one thread.
#ifndef ASSAY_KERNELS_PROVIDERS_CUDNN_GRAPH_H_
#define ASSAY_KERNELS_PROVIDERS_CUDNN_GRAPH_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/providers/cudnn/api.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels::cudnn {

// One object of the backend API. Its attributes are set one by one, and then it is finalized.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&&) = delete;

  Descriptor& Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::int64_t count, const void* values);
  template <class T>
  Descriptor& Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  const T& value) {
    return Set(name, type, 1, &value);
  }
  Descriptor& Set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values) {
    return Set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
  }
  Descriptor& Set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.descriptor_);
  }
  Descriptor& Set(cudnnBackendAttributeName_t name, std::span<const Descriptor> others);
  Descriptor& Finalize();

  // Reads at most `most` elements of an attribute, and returns how many it has.
  std::int64_t Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   std::int64_t most, void* values);

  cudnnBackendDescriptor_t get() const { return descriptor_; }
  const absl::Status& status() const { return status_; }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
  absl::Status status_;
};

// Where a tensor lies: in device memory, in host memory that a launch reads, or only inside the
// graph.
enum class Place { kDevice, kHost, kVirtual };

// Describes a tensor. Strides are in elements.
Descriptor Tensor(std::int64_t uid, cudnnDataType_t type, const std::vector<std::int64_t>& dims,
                  const std::vector<std::int64_t>& strides, Place place = Place::kDevice);
// A scalar in host memory, [1, 1, 1, 1].
inline Descriptor HostScalar(std::int64_t uid, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
  return Tensor(uid, type, {1, 1, 1, 1}, {1, 1, 1, 1}, Place::kHost);
}

// The arithmetic that an engine may use.
struct EngineRules {
  bool tensor_cores = true;  // false for fp32: they would round inputs to tf32
};

// A graph of operations with its chosen engine and its workspace.
class ExecutionPlan {
 public:
  // Asks the heuristic for engines and takes the first that follows the rules of cudnn.h and makes
  // a plan. UNIMPLEMENTED with the reason if there is none.
  static absl::StatusOr<ExecutionPlan> Make(std::span<const Descriptor> operations,
                                            const EngineRules& rules, Device& device);

  // Enqueues one launch on the device's stream. There is one pointer for each uid; those of scalars
  // point to host memory. Every call must have the same uids.
  absl::Status Run(std::span<const std::int64_t> uids, std::span<void* const> pointers);

  // "cudnn 9.19.0 engine 38, tensor cores, workspace 0 bytes, deterministic"
  const std::string& text() const { return text_; }

 private:
  ExecutionPlan(Device& device, cudnnHandle_t handle, Descriptor graph, Descriptor plan)
      : device_(&device), handle_(handle), graph_(std::move(graph)), plan_(std::move(plan)) {}

  Device* device_;
  cudnnHandle_t handle_;
  Descriptor graph_;
  Descriptor plan_;
  void* workspace_ = nullptr;
  std::string text_;
  std::vector<void*> packed_;         // the pointers that pack_ holds
  std::unique_ptr<Descriptor> pack_;  // of the last launch
};

}  // namespace assay::kernels::cudnn

#endif  // ASSAY_KERNELS_PROVIDERS_CUDNN_GRAPH_H_
