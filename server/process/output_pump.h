// Copies a worker's stdout and stderr into the log, line by line.
//
// Kernels under test and their libraries may print anything at any rate. A line is cut at 500
// bytes. At most 20 lines a second are written, with bursts of 100. The log says how many are
// missing.
#ifndef ASSAY_SERVER_PROCESS_OUTPUT_PUMP_H_
#define ASSAY_SERVER_PROCESS_OUTPUT_PUMP_H_

#include <string>
#include <string_view>
#include <thread>

#include "server/base/log.h"

namespace assay::server {

class OutputPump {
 public:
  explicit OutputPump(std::string device);
  ~OutputPump();
  OutputPump(const OutputPump&) = delete;
  OutputPump& operator=(const OutputPump&) = delete;

  // The descriptor that a worker writes to. The pump owns it.
  int write_fd() const { return pipe_[1]; }

 private:
  void Loop();
  void Take(std::string_view bytes);
  void Line(std::string_view line);

  const std::string device_;
  int pipe_[2] = {-1, -1};
  int wake_ = -1;
  std::string partial_;
  LogRateLimit limit_{20, 100};
  std::thread thread_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_PROCESS_OUTPUT_PUMP_H_
