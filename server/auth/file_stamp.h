// Tells whether files have changed.
#ifndef ASSAY_SERVER_AUTH_FILE_STAMP_H_
#define ASSAY_SERVER_AUTH_FILE_STAMP_H_

#include <initializer_list>
#include <string>

namespace assay::server {

// A text that changes whenever one of the files changes, its mode and owner included. An empty path
// counts as a file that is not there.
std::string FileStamp(std::initializer_list<std::string> paths);

}  // namespace assay::server

#endif  // ASSAY_SERVER_AUTH_FILE_STAMP_H_
