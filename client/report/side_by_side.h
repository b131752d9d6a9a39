// Shows times side by side: one row for each case, one group of columns for each provider.
//
// Each time has a ratio to the best time of its row. If an output does not verify, its group shows
// the reason and no ratio.
#ifndef ASSAY_CLIENT_REPORT_SIDE_BY_SIDE_H_
#define ASSAY_CLIENT_REPORT_SIDE_BY_SIDE_H_

#include "client/report/report.h"

namespace assay::client {

// Writes the table of all timed cases to the surface, a line of headings above, each
// ending in a newline; nothing where there is none. Groups that do not fit its width go
// below one another, a line a provider.
//
// Of each provider: the median time, the rate (bytes if the operator has rate_in_bytes, else
// operations; a column each if there are both), and how many times the best provider's time that
// is. With a baseline the last column of a group is the change. All figures of a column have the
// unit of its heading, whichever provider's.
void WriteSideBySide(const Report& report, const Surface& surface);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_SIDE_BY_SIDE_H_
