"""The same verdict, to the bit of its statistics, from Python and from the command line."""

import collections
import os

import same_verdict

CASES = int(os.environ.get("ASSAY_SAME_VERDICT_CASES", "20"))


def test_same_verdict_from_python_and_from_the_command_line(assay, program, tmp_path):
    verdicts = collections.Counter()
    for seed in range(CASES):
        result, wrong = same_verdict.judged_twice(assay.client, program, str(tmp_path), seed)
        assert not wrong, (seed, wrong)
        verdicts["refused" if result is None else result.verdict] += 1
    print(dict(verdicts))
    assert verdicts["PASSED"] >= CASES // 5 and verdicts["FAILED"] >= CASES // 5, verdicts
    assert verdicts["refused"] <= CASES // 4, verdicts
