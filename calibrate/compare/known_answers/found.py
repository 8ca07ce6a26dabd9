"""Says how far the rows of `as_found.sh` are within their tolerances; exits with 1 if they are not.

    found.py ROWS
"""

import csv
import statistics
import sys


def main(path):
    rows = list(csv.DictReader(open(path)))
    of = lambda question: [row for row in rows if row["question"] == question]
    errors = lambda some: [abs(float(row["error"] or "inf")) for row in some]
    bad = 0
    for row in of("fitted") + of("invented"):
        most = 0.06 if row["part"] == "hogs" else 0.03
        if errors([row])[0] > most:
            bad += 1
            print(f"{row['part']}: {row['what']} {row['error'] or 'is missing'}")
    if predicted := errors(of("predicted")):
        mean, worst, count = statistics.mean(predicted), max(predicted), len(predicted)
        inside = sum(int(row["found"]) for row in of("within"))
        causes = sum(int(row["found"]) for row in of("cause"))
        width = statistics.median(errors(of("within")))
        print(f"{count} loaders: mean {mean:.1%}, worst {worst:.1%}; {inside} in their 90 % interval, half-width {width:.1%}; "
              f"{causes} with the right cause")
        bad += mean > 0.05 or worst > 0.12 or inside < 0.8 * count or causes < 0.9 * count or width > 0.1
    if held := of("held"):
        inside = sum(int(row["found"]) for row in held)
        print(f"{inside} of {len(held)} limits in their 95 % interval, half-width {statistics.median(errors(held)):.1%}")
        bad += inside < 0.9 * len(held) or statistics.median(errors(held)) > 0.06
    if promised := errors(of("promised")):
        kept = sum(int(row["found"]) for row in of("kept"))
        print(f"{kept} of {len(promised)} what-ifs in their interval, half-width {statistics.median(errors(of('kept'))):.1%}; "
              f"mean error {statistics.mean(promised):.1%}, worst {max(promised):.1%}")
        bad += kept < 0.8 * len(promised)
    print("all within their tolerance" if not bad else "not all within their tolerance")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
