#include "kernels/providers/onednn/primitives.h"

#include <algorithm>
#include <list>

#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace assay::inline kernels::onednn {
namespace {

constexpr std::size_t kKept = 256;  // compiled primitives; each has at most a few hundred kB

// A cache whose order is by last use, the most recent first.
class Cache {
 public:
  std::shared_ptr<const Compiled> Get(const std::string& key) {
    absl::MutexLock lock(&mutex_);
    const auto it = index_.find(key);
    if (it == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, it->second);
    return it->second->second;
  }

  void Put(const std::string& key, std::shared_ptr<const Compiled> compiled) {
    absl::MutexLock lock(&mutex_);
    if (index_.contains(key)) return;
    order_.emplace_front(key, std::move(compiled));
    index_[key] = order_.begin();
    if (order_.size() > kKept) {
      index_.erase(order_.back().first);
      order_.pop_back();
    }
  }

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const Compiled>>;
  absl::Mutex mutex_;
  std::list<Entry> order_;
  absl::flat_hash_map<std::string, std::list<Entry>::iterator> index_;
};

Cache& SharedCache() {
  // The cache is never destroyed, because the library's own globals may be gone by then.
  static Cache* const cache = new Cache;
  return *cache;
}

}  // namespace

const dnnl::engine& CpuEngine() {
  static const dnnl::engine* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::stream& CpuStream() {
  static dnnl::stream* const stream = new dnnl::stream(CpuEngine());
  return *stream;
}

const std::string& Version() {
  static const std::string* const version = [] {
    const dnnl_version_t* v = dnnl_version();
    return new std::string(Cat(v->major, ".", v->minor, ".", v->patch));
  }();
  return *version;
}

KernelEntry Entry(std::string_view op, std::vector<DType> dtypes, KernelFactory make) {
  return KernelEntry{.op = op,
                     .provider = "onednn",
                     .backend = "cpu",
                     .dtypes = std::move(dtypes),
                     .make = make,
                     .version = Version()};
}

absl::StatusOr<dnnl::memory::data_type> TypeOf(DType format) {
  switch (format) {
    case DType::kF32:
      return dnnl::memory::data_type::f32;
    case DType::kF16:
      return dnnl::memory::data_type::f16;
    case DType::kBF16:
      return dnnl::memory::data_type::bf16;
    case DType::kI8:
      return dnnl::memory::data_type::s8;
    case DType::kI32:
      return dnnl::memory::data_type::s32;
    default:
      return absl::UnimplementedError(
          Cat("oneDNN ", Version(), " has no data type ", Name(format)));
  }
}

bool HasExactInt8() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::avx512_core_vnni:
    case dnnl::cpu_isa::avx512_core_bf16:
    case dnnl::cpu_isa::avx512_core_amx:
    case dnnl::cpu_isa::avx2_vnni:
      return true;
    default:
      return false;
  }
}

bool FlushesSubnormals(DType input) {
  if (input != DType::kBF16) return false;
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
}

absl::Status StatusOf(const dnnl::error& error, std::string_view what) {
  switch (error.status) {
    case dnnl_unimplemented:
    // The library calls a descriptor of operands that do not go together invalid. The shapes were
    // checked before, so the library does not have this combination.
    case dnnl_invalid_arguments:
      return absl::UnimplementedError(Cat("oneDNN ", Version(), " has no primitive for ", what,
                                          " on this CPU (", error.what(), ")"));
    case dnnl_out_of_memory:
      return absl::ResourceExhaustedError(
          Cat("oneDNN, ", what, ": out of memory (", error.what(), ")"));
    default:
      return absl::InternalError(
          Cat("oneDNN, ", what, ": ", error.what(), ", status ", static_cast<int>(error.status)));
  }
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

std::shared_ptr<const Compiled> Compile(const std::string& key,
                                        absl::FunctionRef<Compiled()> make) {
  if (auto kept = SharedCache().Get(key)) return kept;
  auto compiled = std::make_shared<const Compiled>(make());
  SharedCache().Put(key, compiled);
  return compiled;
}

void Step::Bind(int arg, const Desc& desc) { Bind(arg, desc, DNNL_MEMORY_NONE); }

void Step::Bind(int arg, const Desc& desc, void* data) {
  args_.insert_or_assign(arg, dnnl::memory(desc, CpuEngine(), data));
}

void Step::Set(int arg, void* data) { args_.at(arg).set_data_handle(data); }

std::int64_t Step::scratchpad_bytes() const {
  return static_cast<std::int64_t>(compiled_->scratchpad.get_size());
}

void Step::SetScratchpad(void* data) {
  if (scratchpad_bytes() > 0) Bind(DNNL_ARG_SCRATCHPAD, compiled_->scratchpad, data);
}

void Step::Run() {
  compiled_->primitive.execute(CpuStream(), args_);
  CpuStream().wait();
}

absl::Status AllocateScratchpad(Device& device, const std::vector<Step*>& steps) {
  std::int64_t bytes = 0;
  for (const Step* s : steps) {
    if (s != nullptr) bytes = std::max(bytes, s->scratchpad_bytes());
  }
  if (bytes == 0) return absl::OkStatus();
  const absl::StatusOr<Block> block = device.arena().Allocate(bytes, /*guarded=*/false);
  if (!block.ok()) return block.status();
  for (Step* s : steps) {
    if (s != nullptr) s->SetScratchpad(block->data);
  }
  return absl::OkStatus();
}

}  // namespace assay::kernels::onednn
