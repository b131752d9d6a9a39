// JobNames finds names for new jobs. Safe for any thread.
#ifndef ASSAY_SERVER_JOBS_JOB_NAMES_H_
#define ASSAY_SERVER_JOBS_JOB_NAMES_H_

#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "server/store/store.h"

namespace assay::server {

class JobNames {
 public:
  explicit JobNames(Store& store) : store_(store) {}

  struct Name {
    std::string text;
    bool is_new = false;  // no job in the store has it
  };

  // A name that is held: nobody else gets it until it is released.
  Name Take();
  // Looks for the next name ahead, as to look in the store takes time.
  void FindNext();
  // Holds the name of a job that an earlier daemon left.
  void Hold(std::string_view name);
  // Once its job has ended, or was refused. From then on the store says whether a job has it.
  void Release(std::string_view name);

 private:
  Name Find();

  Store& store_;
  std::mutex mutex_;
  std::set<std::string, std::less<>> held_;
  std::string next_;  // one of those, which no job has; empty: none is known
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_JOBS_JOB_NAMES_H_
