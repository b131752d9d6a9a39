// The rules of Diagnose, grouped by the evidence that they look at. A rule returns nothing if there
// is no such evidence.
#ifndef ASSAY_KERNELS_DIAGNOSE_DIAGNOSE_RULES_H_
#define ASSAY_KERNELS_DIAGNOSE_DIAGNOSE_RULES_H_

#include <optional>
#include <string>
#include <string_view>

#include "kernels/diagnose/diagnose.h"

namespace assay::inline kernels::internal {

using Rule = std::optional<Reading>(const Symptoms& s);

// A finding of that reason, or nullptr.
const Finding* FindingOf(const Symptoms& s, Reason reason);
// All inputs are measured and finite.
bool InputsFinite(const Symptoms& s);
// Whether exact cases fail in which each result is one product, or a sum of few. An accumulator
// or an intermediate of 16 bits keeps those, so the fault is another.
bool RoundsASingleTerm(const Symptoms& s);
// Whether exact sums that are too long for 16 bits come out right.
bool SumsAreRight(const Symptoms& s);
// What the case's operator knows, and what it may look at.
const Diagnostics& OperatorsOwn(const Symptoms& s);
Signs SignsOf(const Symptoms& s);

// Memory and launches (diagnose.cc).
Rule WritesOutside, ChangesInput, Nondeterministic, TolerancesTooTight, ProbesOnly, Slow,
    Suspicious, DoubtfulErrors, TooWide, NothingProven, Unread;
// NaN and infinities (diagnose_classes.cc).
Rule MayOverflow, OfOperator, ReadsOutside, NonFinite, NanIsLost;
// Where errors lie (diagnose_places.cc).
Rule Unwritten, Displaced, Transposed, TileEdges, Tail, OneBlock, SingleElement, WholeHeads,
    PlaceOfOperator;
// What the values are (diagnose_values.cc).
Rule ZeroOutput, ConstantOutput, TailUnderflows, WrongScale, ColumnScale, MissingBias, RowFactor,
    ZeroLines, NarrowSums, NarrowBf16, Truncation;

}  // namespace assay::kernels::internal

#endif  // ASSAY_KERNELS_DIAGNOSE_DIAGNOSE_RULES_H_
