// A librocm_smi64 with two devices, for tests: the second is at PCI 0001:3b:00.0, partition 2.
// ASSAY_FAKE_ROCM=lost makes every question about it fail.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kOk = 0, kNotSupported = 2 };

static int Lost(void) {
  const char* is = getenv("ASSAY_FAKE_ROCM");
  return is != NULL && strcmp(is, "lost") == 0;
}

int rsmi_init(uint64_t flags) { return flags == 0 ? kOk : kNotSupported; }
int rsmi_shut_down(void) { return kOk; }
int rsmi_num_monitor_devices(uint32_t* count) {
  *count = 2;
  return kOk;
}
int rsmi_dev_pci_id_get(uint32_t device, uint64_t* id) {
  *id = device == 0 ? 0x100 : (uint64_t)1 << 32 | 0x20000000 | 0x3b << 8;
  return kOk;
}
// The second has an edge alone.
int rsmi_dev_temp_metric_get(uint32_t device, uint32_t sensor, int metric, int64_t* value) {
  if (Lost() || device != 1 || sensor != 0 || metric != 0) return kNotSupported;
  *value = 54500;
  return kOk;
}
int rsmi_dev_power_ave_get(uint32_t device, uint32_t sensor, uint64_t* value) {
  if (Lost() || device != 1 || sensor != 0) return kNotSupported;
  *value = 305250000;
  return kOk;
}
int rsmi_dev_ecc_count_get(uint32_t device, uint64_t block, uint64_t* counts) {
  if (Lost() || device != 1 || block == 2) return kNotSupported;
  counts[0] = block;  // 1 and 4
  counts[1] = 7;
  counts[2] = 99;  // deferred, as later versions have it
  return kOk;
}
int rsmi_version_str_get(int component, char* text, uint32_t size) {
  if (component != 0) return kNotSupported;
  snprintf(text, size, "6.8.5");
  return kOk;
}
