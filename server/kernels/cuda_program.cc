#include "server/kernels/cuda_program.h"

#include <vector>

#include "kernels/simt/expression.h"
#include "kernels/simt/limits.h"
#include "kernels/text/cat.h"
#include "server/kernels/cuda_source.h"

namespace assay::server {
namespace {

// The identifier of an entry: "sum" of "mine::sum<float>".
std::string_view IdentifierOf(std::string_view entry) {
  entry = entry.substr(0, entry.find('<'));
  const std::size_t scope = entry.rfind(':');
  if (scope != entry.npos) entry.remove_prefix(scope + 1);
  return entry.substr(0, entry.find(' '));
}

// Whether the text may have such a kernel. A macro can make its name of two words.
bool MayHave(std::string_view text, std::string_view entry) {
  return text.find(IdentifierOf(entry)) != text.npos || text.find("##") != text.npos;
}

}  // namespace

absl::StatusOr<std::string> EntryOf(std::string_view file_name, std::string_view text,
                                    const LaunchDescription& launch, std::string_view entry) {
  const CudaSource source = ScanCuda(text);
  const std::string said(entry.empty() ? launch.entry : entry);
  if (!said.empty() && MayHave(text, said)) return said;
  if (!said.empty()) {
    return absl::InvalidArgumentError(
        Cat(file_name, ": has no kernel ", said, "; has ",
            source.kernels.empty() ? "no function marked __global__" : Join(source.kernels, ", ")));
  }
  if (source.kernels.size() == 1) return source.kernels.front();
  if (source.kernels.empty()) {
    return absl::InvalidArgumentError(
        Cat(file_name, ": has no kernel, a function marked __global__"));
  }
  return absl::InvalidArgumentError(Cat(file_name, ": has several kernels (",
                                        Join(source.kernels, ", "),
                                        "); say which one: --kernel-entry NAME, or the key entry "
                                        "of the launch description"));
}

namespace {

template <class Texts>
std::string List(const Texts& texts) {
  std::vector<std::string> quoted;
  quoted.reserve(std::size(texts));
  for (const std::string& text : texts) quoted.push_back(simt::Quoted(text));
  return Cat("{", Join(quoted, ", "), "}");
}

// One place in the library's thread-local memory, which has all the names of the source.
std::string DynamicShared(const CudaSource& source) {
  std::vector<std::string> names = {"assay_simt_dynamic_shared"};
  names.insert(names.end(), source.dynamic_shared.begin(), source.dynamic_shared.end());
  std::string text = "asm(\".pushsection .tbss,\\\"awT\\\",@nobits\\n.balign 128\\n\"\n";
  for (const std::string& name : names) {
    if (!simt::IsName(name)) continue;
    Append(&text, "    \".globl ", name, "\\n.hidden ", name, "\\n.type ", name, ", @object\\n",
           name, ":\\n\"\n");
  }
  Append(&text, "    \".zero ", simt::kMostDynamicShared, "\\n.popsection\");\n");
  return text;
}

}  // namespace

absl::StatusOr<std::string> CudaProgram(std::string_view file_name, std::string_view source,
                                        const LaunchDescription& launch, std::string_view entry) {
  const CudaSource found = ScanCuda(source);
  const absl::StatusOr<std::string> name = EntryOf(file_name, source, launch, entry);
  if (!name.ok()) return name.status();
  std::vector<std::string> arguments = launch.args;
  arguments.emplace_back();  // an array has an element at least
  return Cat("#include <assay_simt_stub.h>\n#include ", simt::Quoted(file_name),
             "\n#line 1 \"launch description\"\n", DynamicShared(found),
             "namespace {\nusing AssaySimtCalls = assay::simt::Calls<&", *name, ", decltype(&",
             *name, ")>;\nconstexpr const char* kAssaySimtArguments[] = ", List(arguments),
             ";\nconstexpr assay::simt::ProgramText kAssaySimtText = {\n    ", simt::Quoted(*name),
             ",\n    ", List(launch.grid), ",\n    ", List(launch.block), ",\n    ",
             simt::Quoted(launch.shared), ",\n    kAssaySimtArguments,\n    ", launch.args.size(),
             ",\n    AssaySimtCalls::kParameters,\n    AssaySimtCalls::kCount,\n    "
             "&AssaySimtCalls::Call};\n}  // namespace\n"
             "extern \"C\" __attribute__((visibility(\"default\"))) const int assay_simt_v1;\n"
             "extern \"C\" const int assay_simt_v1 = 1;\n"
             "extern \"C\" const assay_kernel* assay_kernel_v1() {\n"
             "  return assay::simt::Describe(kAssaySimtText);\n}\n");
}

}  // namespace assay::server
