// Facts about a case that do not need its problem.
#ifndef ASSAY_SERVER_BASE_CASE_SPEC_H_
#define ASSAY_SERVER_BASE_CASE_SPEC_H_

#include <string>
#include <string_view>

#include "assay/v1/case.pb.h"

namespace assay::server {

// The operator, such as "gemm": the name of the set member of the oneof. Empty if the spec has no
// problem.
std::string OpOf(const v1::CaseSpec& spec);

// Whether the kernels of a provider are there for a self-test: wrong on purpose ("planted/…"), or
// cheats and their twins ("cheat/…"). No alert counts them.
bool IsPlanted(std::string_view provider);

// The provider of functions that run in a caller's process ("external"), and whether it is that
// one. Nothing that they do speaks against the device, and no alert counts them.
std::string_view ExternalProvider();
bool IsExternal(std::string_view provider);

// How the name of each user's kernel begins.
inline constexpr std::string_view kUserKernelPrefix = "user/";

// Whether a provider is a user's own kernel ("user/3fa9c1d2e4b0"), or a cheat, which runs as if it
// were one ("cheat/late-write"). What such a kernel does says nothing of this node, so no alert
// counts it and no device is set aside for it.
bool IsUserKernel(std::string_view provider);

// Whether the kernels of a device ("cpu:0"), or of all devices of a backend ("simt"), run on the
// node's processors.
bool RunsOnHost(std::string_view device);

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_CASE_SPEC_H_
