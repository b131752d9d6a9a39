#include "kernels/runner/library_kernel.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

template <std::size_t N>
void Put(std::string_view text, char (&to)[N]) {
  const std::size_t n = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), n);
  std::memset(to + n, 0, N - n);
}

// As many bytes as the bands around an operand have, on each side of the workspace.
constexpr std::uint64_t kWorkspaceBand = 4096;

bool BandHolds(const char* band, std::uint32_t byte) {
  return static_cast<unsigned char>(*band) == byte &&
         std::memcmp(band, band + 1, kWorkspaceBand - 1) == 0;
}

}  // namespace

LoadStatus LibraryKernel::Load(RunnerAnswer& answer) {
  const LoadStatus status = Open(answer);
  return status == LoadStatus::kOk ? Prepare(answer) : status;
}

LoadStatus LibraryKernel::Open(RunnerAnswer& answer) {
  void* const library = dlopen(description_.library, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    Put(dlerror(), answer.message);
    return LoadStatus::kNotLoaded;
  }
  using Describe = const assay_kernel* (*)();
  const auto describe = reinterpret_cast<Describe>(dlsym(library, "assay_kernel_v1"));
  if (describe == nullptr) return LoadStatus::kNoSymbol;
  kernel_ = describe();
  if (kernel_ == nullptr) {
    Put("assay_kernel_v1 returned NULL", answer.message);
    return LoadStatus::kMalformed;
  }
  if (kernel_->abi_version != ASSAY_KERNEL_ABI_VERSION) {
    Put(Cat("the library has version ", kernel_->abi_version, ", and this build takes version ",
            ASSAY_KERNEL_ABI_VERSION),
        answer.message);
    return LoadStatus::kWrongVersion;
  }
  if (kernel_->struct_size < sizeof(assay_kernel) || kernel_->launch == nullptr) {
    Put(kernel_->launch == nullptr && kernel_->struct_size >= sizeof(assay_kernel)
            ? std::string("the description has no launch function")
            : Cat("struct_size is ", kernel_->struct_size, " and must be sizeof(assay_kernel), ",
                  sizeof(assay_kernel)),
        answer.message);
    return LoadStatus::kMalformed;
  }
  if (kernel_->name != nullptr) Put(kernel_->name, answer.name);
  if (kernel_->op != nullptr && std::string_view(kernel_->op) != description_.op) {
    Put(Cat("the kernel computes ", kernel_->op, ", not ", description_.op), answer.message);
    return LoadStatus::kOtherOp;
  }
  return LoadStatus::kOk;
}

LoadStatus LibraryKernel::Prepare(RunnerAnswer& answer) {
  DescribeLaunch();
  std::uint64_t workspace_bytes = 0;
  if (kernel_->prepare != nullptr) {
    char message[kMessageBytes] = {};
    const int status =
        kernel_->prepare(&view_.problem(), &state_, &workspace_bytes, message, sizeof message);
    message[sizeof message - 1] = 0;
    Put(message, answer.message);
    if (status == ASSAY_UNSUPPORTED) return LoadStatus::kUnsupported;
    if (status == ASSAY_NO_MEMORY) return LoadStatus::kNoMemory;
    if (status != ASSAY_OK) {
      if (message[0] == 0) Put(Cat("prepare returned ", status), answer.message);
      return LoadStatus::kFailed;
    }
  }
  if (workspace_bytes > 0) {
    constexpr std::uint64_t kAlignment = 64;
    const std::uint64_t rounded =
        (workspace_bytes + 2 * kWorkspaceBand + kAlignment - 1) / kAlignment * kAlignment;
    void* memory = nullptr;
    if (rounded > workspace_bytes) memory = std::aligned_alloc(kAlignment, rounded);
    if (memory == nullptr) {
      Put(Cat("there is no room for a workspace of ", workspace_bytes, " bytes: a kernel may take ",
              description_.memory_bytes),
          answer.message);
      return LoadStatus::kNoMemory;
    }
    // Touched before the first launch, so that no launch pays for it.
    std::memset(memory, static_cast<int>(description_.workspace_byte), rounded);
    launch_.workspace = static_cast<char*>(memory) + kWorkspaceBand;
    launch_.workspace_bytes = workspace_bytes;
  }
  return LoadStatus::kOk;
}

int LibraryKernel::Launch(RunnerAnswer& answer) {
  message_[0] = 0;
  const bool watched = watched_left_ > 0;
  if (watched) --watched_left_;
  const int status = kernel_->launch(state_, &launch_);
  if (status != ASSAY_OK) {
    message_[sizeof message_ - 1] = 0;
    Put(message_, answer.message);
    return status;
  }
  if (watched && !LeavesBandsAlone()) {
    Put(Cat("it writes before or behind its workspace of ", launch_.workspace_bytes, " bytes"),
        answer.message);
    return ASSAY_OUT_OF_BOUNDS;
  }
  return ASSAY_OK;
}

void LibraryKernel::FillWorkspace() {
  if (launch_.workspace == nullptr) return;
  std::memset(launch_.workspace, static_cast<int>(description_.workspace_byte),
              launch_.workspace_bytes);
}

bool LibraryKernel::LeavesBandsAlone() const {
  if (launch_.workspace == nullptr) return true;
  const char* const workspace = static_cast<const char*>(launch_.workspace);
  return BandHolds(workspace - kWorkspaceBand, description_.workspace_byte) &&
         BandHolds(workspace + launch_.workspace_bytes, description_.workspace_byte);
}

void LibraryKernel::Destroy() {
  if (kernel_ != nullptr && kernel_->destroy != nullptr) kernel_->destroy(state_);
}

void LibraryKernel::DescribeLaunch() {
  for (std::uint32_t i = 0; i < description_.input_count; ++i) {
    input_data_[i] = At(description_.inputs[i]);
  }
  launch_.struct_size = sizeof launch_;
  launch_.message = message_;
  launch_.message_bytes = sizeof message_;
  launch_.thread_count = description_.thread_count;
  launch_.inputs = input_data_.data();
  launch_.output = At(description_.output);
  if (description_.magnitude.bytes > 0) {
    launch_.magnitude = static_cast<double*>(At(description_.magnitude));
  }
  if (description_.debug.bytes > 0) {
    launch_.debug = At(description_.debug);
    launch_.debug_bytes = static_cast<std::uint64_t>(description_.debug.bytes);
  }
}

}  // namespace assay::kernels
