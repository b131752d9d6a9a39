// Chooses the data of each launch of a kernel that is not trusted, and tells what its outputs and
// times say.
//
// A draw is data of the case's pattern, of a seed. The case's own seed everybody knows. Every other
// one is a secret of 52 random bits, so that no kernel can compute a result before it has the data.
// A result names the seed that it is of, and that seed repeats it.
//
// Most launches get one of three known draws: the case's own and two secret ones, in random order.
// Now and then a launch gets an unseen draw: a new secret one, which no other launch gets. If a
// kernel returns a result that it kept from an earlier launch, then the output is wrong for another
// draw. If it looks up kept results by their data, then launches on unseen draws take longer than
// the others.
//
// An output that was judged right for its draw is known by its digest. Any other output is to be
// judged in full. One thread.
#ifndef ASSAY_KERNELS_VALIDATE_DRAWS_H_
#define ASSAY_KERNELS_VALIDATE_DRAWS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "kernels/runtime/device.h"

namespace assay::inline kernels {

inline constexpr std::size_t kDraws = 3;  // known ones

class DrawRotation {
 public:
  // `own` is the case's seed. `order` decides which draw comes when. The secret seeds do not depend
  // on it.
  explicit DrawRotation(std::uint64_t own, std::uint64_t order = std::random_device{}());

  // Chooses the draw of the next launch and returns its seed. The first launches get each known
  // draw once. The case's own draw is the last of them.
  std::uint64_t Next();
  std::uint64_t seed() const { return seed_; }
  bool unseen() const { return unseen_now_; }

  enum class Output {
    kKnown,  // it was judged right for this draw before
    kNew,    // to be judged
    kOther,  // it is right for another draw: to be judged, and if it is wrong here, it is stale
  };
  // Takes the output of the launch on that draw.
  Output Take(const TensorDigest& output, double seconds);
  // This output of this draw was judged right elsewhere.
  void Know(std::uint64_t seed, const TensorDigest& output) { known_[seed].push_back(output); }
  // The output that was taken last is right.
  void Accept() {
    known_[seed_].push_back(output_);
    quiet_.clear();  // judging is work that shows in the next launch
  }

  // Decides whether this new output is to be judged. The first ones are. If a kernel's outputs
  // vary, later ones are judged by chance.
  bool MustJudge();
  int varying() const { return varying_; }  // outputs that MustJudge was asked about
  int judged() const { return judged_; }    // those for which it returned true

  // Whether there were so many launches on unseen draws that SlowOnUnseen can tell something.
  bool EnoughUnseen() const;

  // How many times longer launches on unseen draws took than all others, by their medians, if that
  // is more than noise explains. Two conditions must hold. The ratio of the medians is large. And
  // most pairs of an unseen launch and one of the two launches just before any unseen one show a
  // clear difference, so that a machine that becomes faster or slower in the meantime is no reason.
  std::optional<double> SlowOnUnseen() const;

 private:
  std::uint64_t NewSeed();

  std::mt19937_64 random_;
  std::set<std::uint64_t> seeds_;                    // all that were ever chosen
  std::array<std::uint64_t, kDraws> known_draws_{};  // their seeds
  std::uint64_t seed_ = 0;                           // of the launch chosen last
  bool unseen_now_ = false;                          // whether that launch is on an unseen draw
  int fresh_ = 0;                                    // unseen draws that were given out
  int launches_ = 0;
  int varying_ = 0;
  int judged_ = 0;
  TensorDigest output_;
  std::map<std::uint64_t, std::vector<TensorDigest>> known_;
  std::map<std::uint64_t, int> seen_;  // launches on each draw
  // Seconds of the launches on known draws since an output was judged. Only if there are at least
  // two, an unseen draw may follow: so no judging disturbs the three launches that are compared.
  std::vector<double> quiet_;
  std::vector<double> unseen_;  // seconds of the launches on unseen draws
  std::vector<double> before_;  // seconds of the two launches just before each of those
  std::vector<double> others_;  // seconds of all launches on known draws, but for the first ones
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_VALIDATE_DRAWS_H_
