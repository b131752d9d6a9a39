// A libnvidia-ml that tells what a file says, for tests: ASSAY_FAKE_NVML names a file of
// "key value" lines, read again with every call. What is not in it is not supported.
//
//   init 9                 nvmlInit fails with that code
//   uuid GPU-1             the only device's
//   temperature, power, clock_sm, clock_mem, reasons, ecc_corrected, ecc_uncorrected
//   violation_0 …          nanoseconds by policy
//   lost 15                every call of the device returns that code
//   xid 79, xid_serial 1   an event, once for each new serial
//   hang 1                 nvmlDeviceGetTemperature never returns
//   process 123            the pid of one that holds 1,000 bytes
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long u64;
enum { kOk = 0, kNotSupported = 3, kNotFound = 6, kTimeout = 10 };

static int Text(const char* key, char* value, size_t size) {
  const char* path = getenv("ASSAY_FAKE_NVML");
  FILE* file = path == NULL ? NULL : fopen(path, "r");
  char name[64], text[128];
  int found = 0;
  if (file == NULL) return 0;
  while (fscanf(file, "%63s %127s", name, text) == 2) {
    if (strcmp(name, key) != 0) continue;
    snprintf(value, size, "%s", text);
    found = 1;
  }
  fclose(file);
  return found;
}

static int Number(const char* key, u64* value) {
  char text[128];
  if (!Text(key, text, sizeof text)) return 0;
  *value = strtoull(text, NULL, 10);
  return 1;
}

static int Unsigned(const char* key, unsigned int* value) {
  u64 number = 0;
  if (Number("lost", &number)) return (int)number;
  if (!Number(key, &number)) return kNotSupported;
  *value = (unsigned int)number;
  return kOk;
}

int nvmlInit_v2(void) {
  u64 code = 0;
  Number("init", &code);
  return (int)code;
}
int nvmlShutdown(void) { return kOk; }
const char* nvmlErrorString(int code) {
  return code == 15 ? "GPU is lost" : code == 9 ? "Driver Not Loaded" : "Not Found";
}
int nvmlSystemGetDriverVersion(char* text, unsigned int size) {
  snprintf(text, size, "999.1");
  return kOk;
}
int nvmlSystemGetNVMLVersion(char* text, unsigned int size) {
  snprintf(text, size, "13.999.1");
  return kOk;
}
static int Handle(const char* key, const char* wanted, void** device) {
  static int the_device;
  char is[128];
  u64 code = 0;
  if (Number("lost", &code)) return (int)code;
  if (!Text(key, is, sizeof is) || strcmp(is, wanted) != 0) return kNotFound;
  *device = &the_device;
  return kOk;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  return Handle("uuid", uuid, device);
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  return Handle("pci", id, device);
}
int nvmlDeviceGetIndex(void* device, unsigned int* index) {
  (void)device;
  *index = 3;
  return kOk;
}
int nvmlDeviceGetUUID(void* device, char* uuid, unsigned int size) {
  (void)device;
  return Text("uuid", uuid, size) ? kOk : kNotSupported;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned int* value) {
  u64 hang = 0;
  (void)device;
  if (Number("hang", &hang)) {
    for (;;) pause();
  }
  return sensor == 0 ? Unsigned("temperature", value) : kNotSupported;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned int* value) {
  (void)device;
  return Unsigned("power", value);
}
int nvmlDeviceGetClockInfo(void* device, int clock, unsigned int* value) {
  (void)device;
  return Unsigned(clock == 1 ? "clock_sm" : clock == 2 ? "clock_mem" : "", value);
}
int nvmlDeviceGetViolationStatus(void* device, int policy, u64* times) {
  char key[32];
  u64 code = 0;
  (void)device;
  if (Number("lost", &code)) return (int)code;
  snprintf(key, sizeof key, "violation_%d", policy);
  times[0] = 1;
  return Number(key, &times[1]) ? kOk : kNotSupported;
}
int nvmlDeviceGetCurrentClocksEventReasons(void* device, u64* reasons) {
  (void)device;
  return Number("reasons", reasons) ? kOk : kNotSupported;
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, u64* errors) {
  (void)device;
  if (counter != 0) return kNotSupported;
  return Number(type == 0 ? "ecc_corrected" : "ecc_uncorrected", errors) ? kOk : kNotSupported;
}
struct Process {
  unsigned int pid;
  u64 bytes;
  unsigned int gpu_instance, compute_instance;
};
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned int* count,
                                            struct Process* processes) {
  u64 pid = 0;
  (void)device;
  if (!Number("process", &pid)) return kNotSupported;
  *count = 1;
  processes[0].pid = (unsigned int)pid;
  processes[0].bytes = 1000;
  return kOk;
}

struct Event {
  void* device;
  u64 type, data;
  unsigned int gpu_instance, compute_instance;
};
static u64 seen_serial;
int nvmlEventSetCreate(void** set) {
  *set = &seen_serial;
  return kOk;
}
int nvmlEventSetFree(void* set) {
  (void)set;
  return kOk;
}
int nvmlDeviceRegisterEvents(void* device, u64 types, void* set) {
  u64 no = 0;
  (void)device;
  (void)set;
  if (Number("no_events", &no)) return kNotSupported;
  return types == 8 ? kOk : kNotSupported;
}
int nvmlEventSetWait_v2(void* set, struct Event* event, unsigned int milliseconds) {
  u64 serial = 0, xid = 0;
  (void)set;
  if (Number("xid_serial", &serial) && serial != seen_serial && Number("xid", &xid)) {
    seen_serial = serial;
    event->type = 8;
    event->data = xid;
    return kOk;
  }
  usleep(1000 * (milliseconds < 5 ? milliseconds : 5));
  return kTimeout;
}
