// The part of NVIDIA's management library (libnvidia-ml.so.1) that telemetry uses: types, values
// and a table of functions, as in its API reference. The library comes with the driver. There is no
// header that every machine has, so this file stands in for it.
#ifndef ASSAY_SERVER_TELEMETRY_NVML_API_H_
#define ASSAY_SERVER_TELEMETRY_NVML_API_H_

#include <cstdint>

namespace assay::nvml {

using Device = struct DeviceHandle*;
using EventSet = struct EventSetHandle*;

// nvmlReturn_t.
enum Return : int {
  kSuccess = 0,
  kUninitialized = 1,
  kNotSupported = 3,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kGpuIsLost = 15,
};

constexpr int kTemperatureGpu = 0;             // nvmlTemperatureSensors_t
constexpr int kClockSm = 1, kClockMemory = 2;  // nvmlClockType_t
constexpr int kVolatileEcc = 0;                // nvmlEccCounterType_t: since the driver's load
constexpr int kCorrected = 0, kUncorrected = 1;

// nvmlPerfPolicyType_t: the policy that held the clocks below those of the application.
enum PerfPolicy : int {
  kPolicyPower = 0,
  kPolicyThermal = 1,
  kPolicySyncBoost = 2,
  kPolicyBoardLimit = 3,
  kPolicyReliability = 5,
};

// nvmlClocksEventReasons. Older drivers call them nvmlClocksThrottleReasons.
constexpr unsigned long long kReasonPowerCap = 0x4, kReasonHwSlowdown = 0x8,
                             kReasonSyncBoost = 0x10, kReasonSwThermal = 0x20,
                             kReasonHwThermal = 0x40, kReasonPowerBrake = 0x80;

constexpr unsigned long long kEventXid = 0x8;  // nvmlEventTypeXidCriticalError

struct ViolationTime {
  unsigned long long reference_time;  // [µs]
  unsigned long long violation_time;  // [ns]
};

struct EventData {
  Device device;
  unsigned long long event_type;
  unsigned long long event_data;  // an XID's number
  unsigned int gpu_instance;
  unsigned int compute_instance;
};

// nvmlProcessInfo_t of the calls that end in _v3.
struct ProcessInfo {
  unsigned int pid;
  unsigned long long used_bytes;  // all bits are ones if it is not known
  unsigned int gpu_instance;
  unsigned int compute_instance;
};

// The functions. A function that this driver does not have is null.
struct Api {
  int (*Init)() = nullptr;
  int (*Shutdown)() = nullptr;
  const char* (*ErrorString)(int) = nullptr;
  int (*DriverVersion)(char*, unsigned int) = nullptr;
  int (*NvmlVersion)(char*, unsigned int) = nullptr;
  int (*HandleByUuid)(const char*, Device*) = nullptr;
  int (*HandleByPciBusId)(const char*, Device*) = nullptr;
  int (*Index)(Device, unsigned int*) = nullptr;
  int (*Uuid)(Device, char*, unsigned int) = nullptr;
  int (*Temperature)(Device, int, unsigned int*) = nullptr;  // [°C]
  int (*PowerUsage)(Device, unsigned int*) = nullptr;        // [mW]
  int (*ClockInfo)(Device, int, unsigned int*) = nullptr;    // [MHz]
  int (*ViolationStatus)(Device, int, ViolationTime*) = nullptr;
  int (*ClockReasons)(Device, unsigned long long*) = nullptr;
  int (*TotalEccErrors)(Device, int, int, unsigned long long*) = nullptr;
  int (*ComputeProcesses)(Device, unsigned int*, ProcessInfo*) = nullptr;
  int (*EventSetCreate)(EventSet*) = nullptr;
  int (*RegisterEvents)(Device, unsigned long long, EventSet) = nullptr;
  int (*EventSetWait)(EventSet, EventData*, unsigned int) = nullptr;  // [ms]
  int (*EventSetFree)(EventSet) = nullptr;
};

}  // namespace assay::nvml

#endif  // ASSAY_SERVER_TELEMETRY_NVML_API_H_
