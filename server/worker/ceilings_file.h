// The file in the state folder that keeps a device's ceilings for the next worker and the next
// daemon. The text comes from a worker (kept_ceilings.h), and the daemon does not read it.
//
// Not thread-safe.
#ifndef ASSAY_SERVER_WORKER_CEILINGS_FILE_H_
#define ASSAY_SERVER_WORKER_CEILINGS_FILE_H_

#include <string>

namespace assay::server {

class CeilingsFile {
 public:
  // An empty path: the text is kept in memory only.
  explicit CeilingsFile(std::string path);

  // The newest text. Empty if there is none, or if it cannot be read.
  const std::string& text() const { return text_; }

  // Takes over a new text and replaces the file as a whole. Ignores a text that is empty or larger
  // than any worker's. If the file cannot be written, the next daemon measures again.
  void Keep(const std::string& text);

 private:
  const std::string path_;
  std::string text_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_CEILINGS_FILE_H_
