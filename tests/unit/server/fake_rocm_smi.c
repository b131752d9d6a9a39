// A librocm_smi64 with two devices, for tests: the second is at PCI 0001:3b:00.0, partition 2.
// ASSAY_FAKE_ROCM names a file of "key value" lines, read again with every call:
//
//   lost 1                 every question about the device fails
//   throttle 5             its throttle bits; without it there are none to be had
//   event 1, serial 1      a notification of that type for it, once for each new serial
//   no_events 1            the driver has none
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kOk = 0, kNotSupported = 2, kNoData = 14 };

static int Number(const char* key, uint64_t* value) {
  const char* path = getenv("ASSAY_FAKE_ROCM");
  FILE* file = path == NULL ? NULL : fopen(path, "r");
  char name[64];
  unsigned long long number = 0;
  int found = 0;
  if (file == NULL) return 0;
  while (fscanf(file, "%63s %llu", name, &number) == 2) {
    if (strcmp(name, key) != 0) continue;
    *value = number;
    found = 1;
  }
  fclose(file);
  return found;
}

static int Lost(void) {
  uint64_t is = 0;
  return Number("lost", &is);
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
  // Of the memory, the graphics and the links.
  if (Lost() || device != 1 || (block != 1 && block != 4 && block != 0x80)) return kNotSupported;
  counts[0] = block;
  counts[1] = 7;
  counts[2] = 99;  // deferred, as later versions have it
  return kOk;
}
int rsmi_version_str_get(int component, char* text, uint32_t size) {
  if (component != 0) return kNotSupported;
  snprintf(text, size, "6.8.5");
  return kOk;
}

int rsmi_dev_metrics_indep_throttle_status_get(uint32_t device, uint64_t* status) {
  if (Lost() || device != 1) return kNotSupported;
  return Number("throttle", status) ? kOk : kNotSupported;
}

// rsmi_evt_notification_data_t of a version whose messages are longer.
struct Event {
  uint32_t device;
  int event;
  char message[96];
};
static uint64_t listening, seen_serial;
int rsmi_event_notification_init(uint32_t device) {
  uint64_t no = 0;
  return Number("no_events", &no) || device != 1 ? kNotSupported : kOk;
}
int rsmi_event_notification_mask_set(uint32_t device, uint64_t mask) {
  if (device != 1) return kNotSupported;
  listening = mask;
  return kOk;
}
int rsmi_event_notification_stop(uint32_t device) {
  (void)device;
  listening = 0;
  return kOk;
}
int rsmi_event_notification_get(int milliseconds, uint32_t* count, struct Event* events) {
  uint64_t event = 0, serial = 0;
  const uint32_t room = *count;
  *count = 0;
  if (milliseconds != 0 || room < 1) return kNotSupported;
  if (!Number("serial", &serial) || serial == seen_serial || !Number("event", &event) ||
      (listening >> (event - 1) & 1) == 0) {
    return kNoData;
  }
  seen_serial = serial;
  events[0].device = 1;
  events[0].event = (int)event;
  memset(events[0].message, 'x', sizeof events[0].message);
  *count = 1;
  return kOk;
}
