// A filter of system calls (seccomp) that is built rule by rule and then installed. The daemon's
// worker and the runner of users' kernels each have their own rules.
//
// libseccomp has a state of its own: one thread of a process uses this at a time.
#ifndef ASSAY_KERNELS_CONFINE_CALL_RULES_H_
#define ASSAY_KERNELS_CONFINE_CALL_RULES_H_

#include <seccomp.h>

#include <cerrno>
#include <cstdint>
#include <initializer_list>

namespace assay::inline kernels {

class CallRules {
 public:
  // `otherwise` is done with a call that no rule matches (SCMP_ACT_ALLOW, …).
  explicit CallRules(std::uint32_t otherwise) : context_(seccomp_init(otherwise)) {
    if (context_ == nullptr) error_ = -ENOMEM;
  }
  ~CallRules() {
    if (context_ != nullptr) seccomp_release(context_);
  }
  CallRules(const CallRules&) = delete;
  CallRules& operator=(const CallRules&) = delete;

  // Does `action` with the call if its arguments meet all of `when`. libseccomp knows each
  // processor's numbers of the calls. A call that the processor or the library does not have gets
  // no rule.
  void Add(std::uint32_t action, const char* name, std::initializer_list<scmp_arg_cmp> when = {}) {
    const int call = seccomp_syscall_resolve_name(name);
    if (error_ != 0 || call == __NR_SCMP_ERROR) return;
    const int done = seccomp_rule_add_array(context_, action, call,
                                            static_cast<unsigned>(when.size()), when.begin());
    // EDOM: this processor has no such call.
    if (done < 0 && done != -EDOM) error_ = done;
  }

  // Installs the filter for this thread, and for the threads that it starts later. Returns the
  // first error, its own or of a rule, as a negative errno; or 0.
  int Load() {
    if (error_ != 0) return error_;
    // Calls of a foreign kind (32 bit, x32) do not exist.
    seccomp_attr_set(context_, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    // A binary tree in place of a list: a call passes seven comparisons instead of eighty.
    seccomp_attr_set(context_, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    // Linux before 5.16 else makes every filtered process slower, against a leak between threads
    // that share one address space. Such a process runs one case and has no such secrets.
    seccomp_attr_set(context_, SCMP_FLTATR_CTL_SSB, 1);
    return seccomp_load(context_);
  }

  // The descriptor of SCMP_ACT_NOTIFY. It belongs to libseccomp.
  int listener() const { return seccomp_notify_fd(context_); }

 private:
  scmp_filter_ctx context_;
  int error_ = 0;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_CONFINE_CALL_RULES_H_
