#include "client/lib/kernel.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/lib/parse.h"
#include "client/lib/text.h"

namespace assay::client {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;
// Long enough for a slow line and for a compiler's whole time.
constexpr absl::Duration kUploadDeadline = absl::Minutes(10);
constexpr std::string_view kOnNode = "node:";

constexpr std::pair<std::string_view, v1::KernelForm> kForms[] = {
    {".so", v1::KERNEL_FORM_LIBRARY},  {".c", v1::KERNEL_FORM_C},
    {".cc", v1::KERNEL_FORM_CXX},      {".cpp", v1::KERNEL_FORM_CXX},
    {".cxx", v1::KERNEL_FORM_CXX},     {".cu", v1::KERNEL_FORM_CUDA},
    {".ptx", v1::KERNEL_FORM_PTX},     {".cubin", v1::KERNEL_FORM_CUBIN},
    {".hsaco", v1::KERNEL_FORM_HSACO}, {".co", v1::KERNEL_FORM_HSACO},
    {".hip", v1::KERNEL_FORM_HIP},
};

absl::StatusOr<v1::KernelForm> FormOf(std::string_view option, const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  const std::size_t dot = name.rfind('.');
  const std::string ending = dot == std::string::npos ? "" : name.substr(dot);
  for (const auto& [known, form] : kForms) {
    if (ending == known) return form;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      View(option),
      ": must be a library (.so), C source (.c), C++ source (.cc, .cpp, .cxx), CUDA source (.cu), "
      "HIP source (.hip), PTX (.ptx), a cubin (.cubin), a code object (.hsaco, .co), "
      "node:/PATH/LIB.so or user/HASH, "
      "got \"",
      path, "\""));
}

}  // namespace

bool HasLaunch(v1::KernelForm form) {
  return form == v1::KERNEL_FORM_CUDA || form == v1::KERNEL_FORM_HIP ||
         form == v1::KERNEL_FORM_PTX || form == v1::KERNEL_FORM_CUBIN ||
         form == v1::KERNEL_FORM_HSACO;
}

bool IsCompiled(v1::KernelForm form) {
  return form == v1::KERNEL_FORM_C || form == v1::KERNEL_FORM_CXX || form == v1::KERNEL_FORM_CUDA ||
         form == v1::KERNEL_FORM_HIP;
}

absl::StatusOr<KernelChoice> ParseKernel(std::string_view option, const std::string& text) {
  KernelChoice choice;
  choice.option = option;
  if (absl::StartsWith(text, "user/")) {
    choice.provider = text;
    return choice;
  }
  std::string& path = absl::StartsWith(text, View(kOnNode)) ? choice.node_path : choice.file;
  path = &path == &choice.node_path ? text.substr(kOnNode.size()) : text;
  const absl::StatusOr<v1::KernelForm> form = FormOf(option, path);
  if (!form.ok()) return form.status();
  choice.form = *form;
  return choice;
}

std::string FileNameOf(const KernelChoice& kernel) {
  const std::string& path = kernel.file.empty() ? kernel.node_path : kernel.file;
  return path.substr(path.rfind('/') + 1);
}

namespace {

// The text of a file of the option's. INVALID_ARGUMENT if there is none.
grpc::Status ReadChosen(std::string_view option, const std::string& path, std::string* text) {
  absl::StatusOr<std::string> bytes = ReadFile(path);
  if (!bytes.ok()) {
    return {grpc::StatusCode::INVALID_ARGUMENT,
            absl::StrCat(View(option), ": ", bytes.status().message())};
  }
  *text = *std::move(bytes);
  if (!text->empty()) return grpc::Status::OK;
  return {grpc::StatusCode::INVALID_ARGUMENT, absl::StrCat(View(option), ": ", path, " is empty")};
}

}  // namespace

grpc::Status UploadKernel(Connection& connection, const KernelChoice& kernel,
                          absl::FunctionRef<void(const std::string&)> line,
                          v1::UserKernel* result) {
  std::string bytes;
  v1::UploadKernelRequest request;
  v1::KernelHeader& header = *request.mutable_header();
  header.set_form(kernel.form);
  header.set_node_path(kernel.node_path);
  if (!kernel.file.empty()) {
    grpc::Status read = ReadChosen(kernel.option, kernel.file, &bytes);
    if (read.ok() && !kernel.launch_file.empty()) {
      read = ReadChosen("kernel-launch", kernel.launch_file, header.mutable_launch());
    }
    if (!read.ok()) return read;
    header.set_entry(kernel.entry);
    header.set_file_name(FileNameOf(kernel));
    header.set_size_bytes(static_cast<std::int64_t>(bytes.size()));
  }
  grpc::ClientContext call;
  SetDeadline(call, kUploadDeadline);
  const auto stream = connection.stub().UploadKernel(&call);
  bool open = stream->Write(request);
  for (std::size_t at = 0; at < bytes.size() && open; at += kChunk) {
    request.set_chunk(bytes.substr(at, kChunk));
    open = stream->Write(request);
  }
  stream->WritesDone();
  v1::UploadKernelResponse response;
  while (stream->Read(&response)) {
    if (response.has_kernel()) {
      *result = response.kernel();
    } else {
      line(response.log_line());
    }
  }
  return stream->Finish();
}

}  // namespace assay::client
