// Output: the place that results are written to. It is standard output, or a file that appears only
// when it is complete.
#ifndef ASSAY_CLIENT_REPORT_OUTPUT_H_
#define ASSAY_CLIENT_REPORT_OUTPUT_H_

#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay::client {

// A file under construction. Not thread-safe.
class OutputFile {
 public:
  // Opens a hidden file beside the one `path` leads to, symbolic links
  // followed. What exists and is no regular file (a device, a pipe) is written
  // as it is: there is nothing to put in its place. INVALID_ARGUMENT says why it
  // cannot.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path);
  // Removes what was not committed.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  std::ostream& stream() { return stream_; }

  // Whether anything was written, or tried to be.
  bool written() { return stream_.tellp() != std::streampos(0); }

  // Puts the file in its place. INTERNAL where the disk was full or the name is taken.
  absl::Status Commit();

 private:
  OutputFile(std::string path, std::string draft);

  std::string path_;
  std::string draft_;  // empty: path_ itself is written
  std::ofstream stream_;
  bool committed_ = false;
};

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_OUTPUT_H_
