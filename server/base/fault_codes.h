// The codes of known device faults. Telemetry counts each of them from 0, and metrics have them as
// labels.
//
// The XIDs are those of NVIDIA's "XID Errors". A kernel is mostly the cause of 13, 31, 43, 45 and
// 69, and planted kernels cause them too. The device, its memory, its link or its firmware causes
// the others. AMD's GPUs have two codes: a page fault, which a kernel mostly causes, and a reset.
#ifndef ASSAY_SERVER_BASE_FAULT_CODES_H_
#define ASSAY_SERVER_BASE_FAULT_CODES_H_

#include <array>
#include <string_view>

namespace assay::server {

inline constexpr std::array<std::string_view, 20> kXidCodes = {
    "xid-13", "xid-31", "xid-32", "xid-43",  "xid-45",  "xid-48", "xid-61",
    "xid-62", "xid-63", "xid-64", "xid-68",  "xid-69",  "xid-74", "xid-79",
    "xid-92", "xid-94", "xid-95", "xid-119", "xid-120", "xid-140"};

inline constexpr std::string_view kVmFaultCode = "vm-fault", kGpuResetCode = "gpu-reset";
inline constexpr std::array<std::string_view, 2> kAmdFaultCodes = {kVmFaultCode, kGpuResetCode};

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_FAULT_CODES_H_
