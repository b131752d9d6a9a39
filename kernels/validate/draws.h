// Which data each timed launch of a kernel gets that is not trusted, and what its output says.
//
// Most launches get one of three draws, in an order that the kernel cannot foresee. Now and then
// one gets a draw that it has never seen. So a result that the kernel kept, by whatever key, is
// either wrong or missing; and a kernel that is quick only on data that it has seen shows that by
// its times.
//
// An output that was judged right for its draw is known by its digest. Any other output is to be
// judged in full. One thread.
#ifndef ASSAY_KERNELS_VALIDATE_DRAWS_H_
#define ASSAY_KERNELS_VALIDATE_DRAWS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "kernels/runtime/device.h"

namespace assay {

inline constexpr std::uint32_t kDraws = 3;

class DrawRotation {
 public:
  explicit DrawRotation(std::uint64_t secret = std::random_device{}()) : random_(secret) {}

  // Chooses the draw of the next launch: its epoch (FillSpec::epoch), 0 to kDraws - 1 or a new one.
  std::uint32_t Next();
  std::uint32_t epoch() const { return epoch_; }

  enum class Output {
    kKnown,  // it was judged right for this draw before
    kNew,    // to be judged
    kOther,  // it is right for another draw: to be judged, and if it is wrong here, it is stale
  };
  // Takes the output of the launch on that draw.
  Output Take(const TensorDigest& output, double seconds);
  // This output of this draw was judged right elsewhere.
  void Know(std::uint32_t epoch, const TensorDigest& output) { known_[epoch].push_back(output); }
  // The output that was taken last is right.
  void Accept() {
    known_[epoch_].push_back(output_);
    quiet_.clear();  // judging is work that shows in the next launch
  }

  // Of a kernel whose outputs vary, whether this new output is to be judged: the first ones are,
  // and later ones by chance.
  bool MustJudge();

  // How many times longer launches on unseen data took than those on data that the kernel had seen,
  // if that is beyond what noise explains. Unseen launches are held against the two before each of
  // them, which were on known draws; nothing was judged between the three. Nearly every unseen one
  // must have been clearly slower than nearly every other one, and the median much slower.
  std::optional<double> SlowOnUnseen() const;

 private:
  std::mt19937_64 random_;
  std::uint32_t epoch_ = 0;
  std::uint32_t fresh_ = kDraws;  // the next epoch that was never used
  int launches_ = 0;
  int judged_ = 0;
  TensorDigest output_;
  std::map<std::uint32_t, std::vector<TensorDigest>> known_;
  std::map<std::uint32_t, int> seen_;    // launches on each draw
  std::vector<double> quiet_;            // seconds of the launches since one was judged
  std::vector<double> unseen_, before_;  // seconds
};

}  // namespace assay

#endif  // ASSAY_KERNELS_VALIDATE_DRAWS_H_
