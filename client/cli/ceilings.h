// Tables of device ceilings: the measured rate, and beside it the rate of the maker's data sheet.
#ifndef ASSAY_CLIENT_CLI_CEILINGS_H_
#define ASSAY_CLIENT_CLI_CEILINGS_H_

#include <string>
#include <vector>

#include "assay/v1/device.pb.h"

namespace assay::client {

std::vector<std::string> CeilingHeading();

// A row a ceiling, in the order the device has them. A device without any has one row that
// says why, so that none is missing from the table.
std::vector<std::vector<std::string>> CeilingRows(const v1::Device& device);

// The ceilings that stand for the device in a listing of devices: the copy's, and the
// faster of vector and matrix units a format. "copy 23.4 GB/s", "bf16 1.03 TFLOP/s".
std::vector<std::string> CeilingWords(const v1::Device& device);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_CEILINGS_H_
