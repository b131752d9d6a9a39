#include "kernels/providers/cudnn/graph.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "kernels/runtime/gpu/stream_of.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels::cudnn {
namespace {

constexpr std::int64_t kAlignment = 16;  // [bytes] of every operand; blocks have 256
constexpr std::int64_t kWorkspace = std::int64_t{256} << 20;

const Api& Library() { return **Load(); }

// The notes of an engine on its arithmetic.
struct Notes {
  explicit Notes(Descriptor& engine) {
    count = engine.Get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                       static_cast<std::int64_t>(all.size()), all.data());
  }
  bool Has(cudnnBackendNumericalNote_t note) const {
    const auto end =
        all.begin() + std::clamp<std::int64_t>(count, 0, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    return std::find(all.begin(), end, note) != end;
  }
  // Why the engine is refused; empty if it is accepted.
  std::string_view Refusal(const EngineRules& rules) const {
    if (Has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return "nondeterministic";
    if (Has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return "inputs converted to fewer bits";
    if (Has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) return "sums below fp32";
    // With both, other elements' terms contribute to an element's error, so its own terms do not
    // bound it.
    if (Has(CUDNN_NUMERICAL_NOTE_WINOGRAD)) return "Winograd";
    if (Has(CUDNN_NUMERICAL_NOTE_FFT)) return "FFT";
    if (!rules.tensor_cores && Has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) {
      return "tensor cores for fp32";
    }
    return "";
  }

  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> all = {};
  std::int64_t count = 0;
};

Descriptor MakeGraph(cudnnHandle_t handle, std::span<const Descriptor> operations) {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle)
      .Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations)
      .Finalize();
  return graph;
}

// The heuristic's proposals, the best first.
absl::StatusOr<std::vector<Descriptor>> Proposals(const Descriptor& graph,
                                                  cudnnBackendHeurMode_t mode) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode)
      .Finalize();
  const std::int64_t count =
      heuristic.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<Descriptor> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(configs.back().get());
  }
  const std::int64_t got = heuristic.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, count, raw.data());
  if (!heuristic.status().ok()) return heuristic.status();
  while (static_cast<std::int64_t>(configs.size()) > got) configs.pop_back();
  return configs;
}

// A plan of an engine that is accepted.
struct Planned {
  Descriptor plan;
  std::int64_t engine;
  std::int64_t workspace;  // [bytes]
  bool tensor_cores;
};

// Makes a plan of one of the heuristic's proposals. If it is not accepted, tells `refuse` why. An
// engine that cannot be queried is not trusted.
std::optional<Planned> MakePlan(cudnnHandle_t handle, Descriptor& config, const EngineRules& rules,
                                std::int64_t limit,
                                absl::FunctionRef<void(std::string_view)> refuse) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  config.Get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
  std::int64_t number = -1;
  engine.Get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &number);
  const Notes notes(engine);
  if (!config.status().ok() || !engine.status().ok()) return std::nullopt;
  if (const std::string_view why = notes.Refusal(rules); !why.empty()) {
    refuse(Cat("engine ", number, ": ", why));
    return std::nullopt;
  }
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle)
      .Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config)
      .Finalize();
  std::int64_t bytes = 0;
  plan.Get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
  if (!plan.status().ok()) {
    refuse(Cat("engine ", number, ": ", plan.status().message()));
    return std::nullopt;
  }
  if (bytes > limit) {
    refuse(Cat("engine ", number, ": workspace of ", bytes, " bytes; the limit is ", limit));
    return std::nullopt;
  }
  return Planned{std::move(plan), number, bytes, notes.Has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)};
}

}  // namespace

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  status_ = StatusOf(Library().descriptor_create(type, &descriptor_), "a descriptor");
  if (!status_.ok()) descriptor_ = nullptr;
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, nullptr)), status_(std::move(other.status_)) {}

Descriptor::~Descriptor() {
  if (descriptor_ != nullptr) (void)Library().descriptor_destroy(descriptor_);
}

Descriptor& Descriptor::Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            std::int64_t count, const void* values) {
  if (status_.ok()) {
    status_ = StatusOf(Library().set(descriptor_, name, type, count, values),
                       Cat("attribute ", static_cast<int>(name)));
  }
  return *this;
}

Descriptor& Descriptor::Set(cudnnBackendAttributeName_t name, std::span<const Descriptor> others) {
  std::vector<cudnnBackendDescriptor_t> all;
  for (const Descriptor& other : others) all.push_back(other.descriptor_);
  return Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(all.size()),
             all.data());
}

Descriptor& Descriptor::Finalize() {
  if (status_.ok()) status_ = StatusOf(Library().finalize(descriptor_), "a descriptor");
  return *this;
}

std::int64_t Descriptor::Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                             std::int64_t most, void* values) {
  std::int64_t count = 0;
  if (status_.ok()) {
    status_ = StatusOf(Library().get(descriptor_, name, type, most, &count, values),
                       Cat("attribute ", static_cast<int>(name)));
  }
  return status_.ok() ? count : 0;
}

Descriptor Tensor(std::int64_t uid, cudnnDataType_t type, const std::vector<std::int64_t>& dims,
                  const std::vector<std::int64_t>& strides, Place place) {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, uid)
      .Set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
      .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment)
      .Set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims)
      .Set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  if (place == Place::kHost) tensor.Set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
  if (place == Place::kVirtual) tensor.Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true);
  tensor.Finalize();
  return tensor;
}

absl::StatusOr<ExecutionPlan> ExecutionPlan::Make(std::span<const Descriptor> operations,
                                                  const EngineRules& rules, Device& device) {
  for (const Descriptor& operation : operations) {
    if (!operation.status().ok()) return operation.status();
  }
  const absl::StatusOr<cudnnHandle_t> handle = Handle();
  if (!handle.ok()) return handle.status();
  Descriptor graph = MakeGraph(*handle, operations);
  if (!graph.status().ok()) return graph.status();

  const std::int64_t limit = std::min(kWorkspace, device.arena().available_bytes(1));
  std::string refused;
  const auto refuse = [&refused](std::string_view why) {
    Append(&refused, refused.empty() ? "" : "; ", why);
  };
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    absl::StatusOr<std::vector<Descriptor>> configs = Proposals(graph, mode);
    if (!configs.ok()) {
      if (!absl::IsUnimplemented(configs.status())) return configs.status();
      refuse(std::string(configs.status().message()));
      continue;
    }
    for (Descriptor& config : *configs) {
      std::optional<Planned> planned = MakePlan(*handle, config, rules, limit, refuse);
      if (!planned) continue;
      ExecutionPlan made(device, *handle, std::move(graph), std::move(planned->plan));
      if (planned->workspace > 0) {
        const auto block = device.arena().Allocate(planned->workspace, /*guarded=*/true);
        if (!block.ok()) return block.status();
        made.workspace_ = block->data;
      }
      made.text_ = Cat("cudnn ", Library().version, " engine ", planned->engine,
                       planned->tensor_cores ? ", tensor cores" : "", ", workspace ",
                       planned->workspace, " bytes, deterministic");
      return made;
    }
  }
  return absl::UnimplementedError(Cat("cuDNN ", Library().version,
                                      " proposes no engine that this provider accepts (",
                                      refused.empty() ? "it proposes none" : refused, ")"));
}

absl::Status ExecutionPlan::Run(std::span<const std::int64_t> uids,
                                std::span<void* const> pointers) {
  const absl::StatusOr<gpu::Stream> stream = gpu::StreamOf(*device_);
  if (!stream.ok()) return stream.status();
  absl::Status s =
      StatusOf(Library().set_stream(handle_, static_cast<cudaStream_t>(*stream)), "the stream");
  if (!s.ok()) return s;
  // The pack is made once for the same pointers, because the host's work in a launch counts in its
  // time.
  if (pack_ == nullptr ||
      !std::equal(packed_.begin(), packed_.end(), pointers.begin(), pointers.end())) {
    auto pack = std::make_unique<Descriptor>(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack->Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
              static_cast<std::int64_t>(uids.size()), uids.data())
        .Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
             static_cast<std::int64_t>(pointers.size()), pointers.data())
        .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace_)
        .Finalize();
    if (!pack->status().ok()) return pack->status();
    pack_ = std::move(pack);
    packed_.assign(pointers.begin(), pointers.end());
  }
  return StatusOf(Library().execute(handle_, plan_.get(), pack_->get()), "the launch");
}

}  // namespace assay::kernels::cudnn
