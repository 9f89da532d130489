"""Frame of a microbenchmark: its argument, the rows as they come, and their provenance. No PyTorch here."""

import datetime
import json
import sys
from pathlib import Path

MOST_ERROR = 0.02  # of outputs, beside sums in float64


class MicroRows:
    """OUTPUT/measurements.jsonl, a line a row; once all are there, OUTPUT/provenance.json."""

    def __init__(self, output, card):
        self.output, self.card = Path(output), card
        self.date = datetime.datetime.now(datetime.timezone.utc)
        self.output.mkdir(parents=True, exist_ok=True)

    def __enter__(self):
        self.file = open(self.output / "measurements.jsonl", "w", encoding="utf-8")
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, fields):
        head = {"schema": "moesim.measurement/2", "kind": "micro", "device": self.card.label()}
        source = {"source": self.card.source(self.date.strftime("%Y-%m-%d"))}
        self.file.write(json.dumps(head | fields | source) + "\n")

    def provenance(self, script, seed):
        fields = {"command": f"validation/harness/torch/{script} OUTPUT", **self.card.provenance(), "seed": seed}
        fields["date"] = self.date.strftime("%Y-%m-%dT%H:%M:%SZ")
        (self.output / "provenance.json").write_text(json.dumps(fields) + "\n", encoding="utf-8")


def write_all(output, card, script, seed, rows):
    """Writes `rows`, each with the clock as it comes, and their provenance; 1 if an output was wrong, else 0."""
    wrong = 0
    with MicroRows(output, card) as micro:
        for row in rows:
            wrong += row["relative_error"] > MOST_ERROR
            micro.write(row | {"sm_mhz": card.nvml.sm_mhz()})
            print(row, file=sys.stderr, flush=True)
    micro.provenance(script, seed)
    return 1 if wrong else 0


def run(main, usage):
    """Calls main(OUTPUT) and ends with its status; 2 and `usage` if OUTPUT is not the only argument."""
    if len(sys.argv) != 2:
        print(usage, file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[1]))
