"""Every corruption of every source: how many wrong prices are listed afterwards, how many runs crash, and whether others are touched.

python tests/bench/guard_campaign.py [SEED] [first]

"first" corrupts the first sweep of every source of a book that holds the starter book alone. What is wrong by less than everybody's
prices differ cannot be told there: the count is shown, and which.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from campaigns import KINDS, Campaign, FirstSight


def main(seed: int) -> int:
    """Print what was found; 1 when anything wrong is listed, crashes or spreads."""
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(Path(folder), seed)
        found = [outcome for outcome in campaign.all() if outcome.applied]
    statuses = Counter(outcome.status or "crashed" for outcome in found)
    bad = [o for o in found if o.wrong or o.crash or o.elsewhere or not o.healed]
    print(f"{len(campaign.sources)} sources, {len(KINDS)} kinds of corruption, {len(campaign.before)} prices listed, seed {seed}")
    print(f"{len(found)} corrupted sweeps: " + ", ".join(f"{count} {status}" for status, count in statuses.items()))
    print(f"wrong prices listed: {sum(len(o.wrong) for o in found)}")
    print(f"crashes: {sum(bool(o.crash) for o in found)}")
    print(f"runs that touched another source: {sum(bool(o.elsewhere) for o in found)}")
    print(f"not healed by two good sweeps: {sum(not o.healed for o in found)}")
    for outcome in bad:
        print(f"  {outcome.source} {outcome.kind}: {outcome.crash or outcome.wrong[:2] or outcome.elsewhere[:2] or 'not healed'}")
    return 1 if bad else 0


def first_sight(seed: int) -> int:
    """Print what a corrupted first sweep lists; 1 when anything crashes."""
    with tempfile.TemporaryDirectory() as folder:
        campaign = FirstSight(Path(folder), seed)
        found = [outcome for outcome in campaign.all() if outcome.applied]
    listed = Counter(outcome.kind for outcome in found if outcome.wrong)
    print(f"{len(found)} corrupted first sweeps, {sum(o.status == 'failed' for o in found)} failed; seed {seed}")
    print(
        f"sweeps that listed a wrong price: {sum(listed.values())}; " + ", ".join(f"{kind} {count}" for kind, count in listed.most_common())
    )
    for outcome in found:
        if outcome.wrong:
            print(f"  {outcome.source} {outcome.kind}: {len(outcome.wrong)}, {outcome.wrong[0][:160]}")
    return 0


if __name__ == "__main__":
    if "first" in sys.argv:
        sys.exit(first_sight(int(sys.argv[1])))
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20261129))
