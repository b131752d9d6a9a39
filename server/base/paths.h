// Where the parts of an installation are, found from the running program, so that
// the tree can be moved: bin/assayd, libexec/assay/assay-worker,
// share/assay/suites; or the same in a build tree.
#ifndef ASSAY_SERVER_BASE_PATHS_H_
#define ASSAY_SERVER_BASE_PATHS_H_

#include <string>

namespace assay {

// The worker program; empty where there is none.
std::string FindWorker();

// The folder of the suites; empty where there is none.
std::string FindSuites();

}  // namespace assay

#endif  // ASSAY_SERVER_BASE_PATHS_H_
