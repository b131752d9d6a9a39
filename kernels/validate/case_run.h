// One case on its way through a device. A case runs in stages. Alone, it goes through all stages,
// one after the other. A small case may go through each stage beside others of its kind
// (CaseRunner::RunLeading).
//
// A case may end in any stage but the last, for example because the memory does not suffice. Then
// only Finish is called. One thread.
#ifndef ASSAY_KERNELS_VALIDATE_CASE_RUN_H_
#define ASSAY_KERNELS_VALIDATE_CASE_RUN_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "kernels/bench/ceilings.h"
#include "kernels/bench/conditions.h"
#include "kernels/checksum/checksum_verifier.h"
#include "kernels/diagnose/explain.h"
#include "kernels/judge/gating.h"
#include "kernels/judge/outcome.h"
#include "kernels/judge/phase_clock.h"
#include "kernels/judge/recheck.h"
#include "kernels/judge/verdict.h"
#include "kernels/ops/case.h"
#include "kernels/ops/op.h"
#include "kernels/providers/provider.h"
#include "kernels/runtime/device.h"
#include "kernels/validate/host_inputs.h"
#include "kernels/validate/launcher.h"
#include "kernels/validate/runner.h"
#include "kernels/validate/timed_outputs.h"
#include "kernels/validate/timing.h"

namespace assay::inline kernels {

class CaseRun {
 public:
  // All must outlive the run; `ceilings`, `conditions` and `draws` may be nullptr.
  CaseRun(const Case& c, Device& device, const Registry& registry, Ceilings* ceilings,
          ConditionsReader* conditions, KeptDraws* draws, PhaseObserver& observer)
      : case_(c),
        device_(device),
        registry_(registry),
        ceilings_(ceilings),
        conditions_(conditions),
        draws_(draws),
        observer_(observer),
        clock_(device, observer),
        launcher_(c, device, clock_),
        checksum_(c, device, clock_) {}

  // The stages, in their order. False: the case has ended.
  bool Begin();     // what there is to compute
  bool Prepare();   // the kernel, and its operands, filled
  bool Launch();    // what is judged, and what it left of the inputs
  bool Verify();    // against the reference, or by checksums
  bool Conclude();  // the verdict, and launches once more where they are due
  // The outcome, of a case that has ended, too. Takes the device's arena.
  CaseOutcome Finish();

  // ---- beside others

  // After Begin: whether the case is small, and takes one launch and one comparison.
  bool MayShare() const;
  // Instead of Prepare: the kernel and room for its operands, beside those of others; then the
  // fills, which may wait until `Filled` says that they are done, and how long a share took.
  bool PrepareBeside();
  bool EnqueueFills();
  const std::vector<TensorView>& inputs() const { return launcher_.inputs(); }
  void Filled(const Fingerprint& inputs, double seconds);
  // Instead of Verify: the reference, the comparison that is asked for, and what came of it.
  bool MakeReference();
  CompareRequest Asked();
  bool Compared(CompareResult result, double seconds);
  // What passes until the next stage is none of the case's time.
  void Pause() { clock_.Enter(Phase::kIdle); }

  // As it stands: UNSPECIFIED where nothing is judged yet.
  Verdict verdict() const { return outcome_.verdict; }
  const std::vector<Finding>& findings() const { return outcome_.findings; }

 private:
  // Whether the case goes on.
  bool Take(End end);
  End Plan();
  End FindKernel();
  End MakeKernel(std::size_t kept);
  void DescribeArithmetic();
  static Ended Unsupported(std::string message);
  End LaunchAll();
  End Validate(int repeats);
  End WarmLaunches();
  End Benchmark();
  // The same for a kernel that is not trusted.
  class Draws;
  End BenchmarkByDraws();
  // Untimed: one launch on a draw that the kernel cannot know, judged in full.
  End LaunchOnSecretDraw();
  // The case's own draw in the operands, its output and its reference.
  End ReturnToOwnDraw();
  void TakeTiming(const BenchTiming& timing);
  // Against the reference, or by checksums, whatever draw the operands hold.
  End VerifyHere();
  void JudgeTimes();
  End FindUnwritten();
  End LookAtTimed(TimedOutputs& outputs);
  End JudgeOthers();
  End VerifyByChecksum();
  End Reference();
  End CompareOutput();
  CompareRequest Request();
  End ComparePass();
  End TakeCompared(CompareResult compared);
  End CompareLast();
  absl::StatusOr<Recheck> RecheckLast();
  End GiveVerdict();
  End GatherEvidence(Evidence& evidence);
  End GatherFromOutput(Evidence& evidence);
  End TellPrecision(Evidence& evidence);
  void Doubt();
  // Does `look` with the case held to another accumulator. Then all is as it was.
  End LookHeldTo(const Accumulator& other, absl::FunctionRef<End()> look);
  // Of a kernel elsewhere nothing is known of what it sums 8-bit floats in.
  End DoubtIfNarrow(Judgement& judgement);
  // Nor whether its sums are rounded or cut off.
  End DoubtIfCutOff(Judgement& judgement);
  End LaunchAgain();
  End JudgeLast();
  void TimedBesideOthers();
  End ExamineOutcome();
  void RunProbes();

  int repeats() const;
  bool timed() const;
  bool only_timed() const { return case_.mode == Mode::kBenchmark && repeats() == 1; }
  bool ByChecksum() const { return case_.verify == Verification::kChecksum; }
  // Outputs made of subnormal inputs, and those of kernels that say so, may be flushed:
  // a property, not a fault.
  bool MayFlush() const;
  const assay::Plan& plan() const { return *outcome_.plan; }
  // The inputs, as the host makes them again.
  const RegeneratedInputs& Host();
  // Null if this case must take nothing from other cases and leave them nothing.
  KeptDraws* SharedDraws() const { return launcher_.kernel().trusted() ? draws_ : nullptr; }

  const Case& case_;
  Device& device_;
  const Registry& registry_;
  Ceilings* const ceilings_;
  ConditionsReader* const conditions_;
  KeptDraws* const draws_;
  PhaseObserver& observer_;
  PhaseClock clock_;
  Launcher launcher_;
  ChecksumVerifier checksum_;
  ChecksumFindings checksum_findings_;
  CaseOutcome outcome_;
  bool ended_ = false;
  bool beside_others_ = false;
  Examination examination_;
  const Op* op_ = nullptr;
  const KernelEntry* entry_ = nullptr;
  std::optional<RegeneratedInputs> host_;
  Gating gating_;
  std::vector<double> seconds_;  // of the validated launches that count
  bool timed_ = false;           // the benchmark's samples are in
  int launches_ = 1;
  int variants_ = 1;
  // The output of a launch that differed from the one that is judged: of one on the other poison,
  // or of a timed one, which the device keeps.
  struct Other {
    std::vector<unsigned char> dense;
    TensorView kept;
    std::string of;  // what a finding says of the launch
  };
  std::vector<Other> others_;
  std::vector<Finding> doubts_;  // of launches on other draws, and of timed ones
  std::string deviation_;
  bool stale_ = false;          // a launch gave another draw's output
  bool wrong_on_draw_ = false;  // a launch on some draw was judged wrong: the case ends with it
  std::string remembers_;       // what says that the kernel keeps results
  bool flushed_ = false;        // what was compared is within its bound only if it may be
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_VALIDATE_CASE_RUN_H_
