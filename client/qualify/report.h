// The report of a qualification: which devices are fit for work, and what to do about the others.
#ifndef ASSAY_CLIENT_QUALIFY_REPORT_H_
#define ASSAY_CLIENT_QUALIFY_REPORT_H_

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/qualify/conduct.h"
#include "client/report/json.h"

namespace assay::client {

struct QualificationReport {
  absl::Time generated_at;
  Level level;
  std::vector<DeviceFit> devices;  // heaviest first once Sort was called
  std::vector<Missing> missing;
  // Where the report of a device's job was written, by target and device; "jobs/4f2k" where
  // it was not.
  std::map<std::pair<std::string, std::string>, std::string> files;
};

// A116, or A904 where there are more than expected; A901; A903.
const QualifyCode& CodeOf(const Missing& missing);

// The heaviest of all devices, and of what is missing; INCONCLUSIVE where there is nothing.
Fitness FitnessOf(const QualificationReport& report);

// Heaviest first, then by target and device.
void Sort(QualificationReport& report);

// One device: what a hook gets on its standard input.
Json DeviceFitJson(const DeviceFit& device, const std::string& report);

// What is missing, as a hook gets it: verdict "MISSING".
Json MissingJson(const Missing& missing);

// {"schema": "assay.qualification/v1", "level", "verdict", "devices": […], "missing": […]}.
Json QualificationJson(const QualificationReport& report);

// Devices that are qualified, where there are more than a few, are only counted, in the last
// row, unless `every_row` asks for all.
void WriteQualificationTable(const QualificationReport& report, bool colour, bool every_row,
                             std::ostream& out);
void WriteQualificationMarkdown(const QualificationReport& report, std::ostream& out);

// "nightly: 7 QUALIFIED, 1 FAILED of 8 devices on 2 nodes, 1 of 3 nodes missing".
std::string QualificationSummary(const QualificationReport& report);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_QUALIFY_REPORT_H_
