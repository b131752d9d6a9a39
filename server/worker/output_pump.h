// A worker's stdout and stderr, line by line into the log.
//
// Kernels under test and the libraries behind them print what they like, as often
// as they like: lines are cut at 500 bytes and limited to 20 a second (bursts of
// 100), and how many are missing is said.
#ifndef ASSAY_SERVER_WORKER_OUTPUT_PUMP_H_
#define ASSAY_SERVER_WORKER_OUTPUT_PUMP_H_

#include <string>
#include <string_view>
#include <thread>

#include "server/base/log.h"

namespace assay {

class OutputPump {
 public:
  explicit OutputPump(std::string device);
  ~OutputPump();
  OutputPump(const OutputPump&) = delete;
  OutputPump& operator=(const OutputPump&) = delete;

  // Where a worker writes; owned by the pump.
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

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_OUTPUT_PUMP_H_
