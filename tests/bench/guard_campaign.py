"""Every corruption of every source: how many wrong prices are listed afterwards, how many runs crash, and whether others are touched.

python tests/bench/guard_campaign.py [SEED]
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from campaigns import KINDS, Campaign


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


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20261129))
