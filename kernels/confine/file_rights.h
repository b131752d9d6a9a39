// Limits the files that a thread, and every process that it starts, may use. Landlock, a part of
// Linux since 5.13, enforces the rules: what no rule allows is refused with EACCES. A restricted
// process can also not trace, or read the memory of, a process outside. Restrictions add up: a
// process that is restricted already can only lose more.
//
// The rules name what there is when they are made. A device file that a driver makes later is not
// among them.
#ifndef ASSAY_KERNELS_CONFINE_FILE_RIGHTS_H_
#define ASSAY_KERNELS_CONFINE_FILE_RIGHTS_H_

#include <string>
#include <vector>

namespace assay::inline kernels {

// Files and folders, as absolute paths. A folder stands for everything in it. Paths that do not
// exist are left out.
struct FileRules {
  std::vector<std::string> readable;   // read and execute
  std::vector<std::string> writable;   // also make, change and remove
  std::vector<std::string> devices;    // read, write and control
  bool process_names = false;          // write in /proc, as CUDA does to name its threads
  std::vector<std::string> forbidden;  // not allowed, even if a readable folder holds them
  std::vector<std::string> granted;    // read and execute, even if a forbidden folder holds them
};

// The folders and files that together hold what is in `path`, without what is in `forbidden`. It is
// `path` alone if nothing forbidden is in it.
std::vector<std::string> Without(const std::string& path,
                                 const std::vector<std::string>& forbidden);

// The version of landlock here: 1 and more. 0 if there is none, and `*why` says why.
int LandlockVersion(std::string* why);

// Restricts the calling thread. Requires no_new_privs. Returns why that was not possible, or an
// empty text.
std::string RestrictFiles(const FileRules& rules);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_CONFINE_FILE_RIGHTS_H_
