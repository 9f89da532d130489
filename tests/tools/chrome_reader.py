"""Reads Trace Event Format files, and checks them against its rules (the "Trace Event Format" document of Chrome)."""

import collections
import decimal
import json

Slice = collections.namedtuple("Slice", "group track name category start_us duration_us depth arguments")
Count = collections.namedtuple("Count", "group counter us value")


def _no_twice(pairs):
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), f"a key twice: {keys}"
    return dict(pairs)


def _no_constant(text):
    raise AssertionError(f"{text} is not JSON")


class Reader:
    def __init__(self, text):
        trace = json.loads(
            text, parse_float=decimal.Decimal, object_pairs_hook=_no_twice, parse_constant=_no_constant
        )
        assert trace["displayTimeUnit"] in ("ms", "ns")
        self.processes, self.threads = {}, {}
        self.slices, self.counts = [], []
        by_thread = collections.defaultdict(list)
        for event in trace["traceEvents"]:
            assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
            assert isinstance(event["args"], dict) and isinstance(event["name"], str)
            getattr(self, "_" + {"M": "metadata", "X": "slice", "C": "count"}[event["ph"]])(event, by_thread)
        for place, slices in by_thread.items():
            self._nest(place, slices)

    def _metadata(self, event, _):
        name, arguments = event["name"], event["args"]
        if name == "process_name":
            assert event["pid"] not in self.processes
            self.processes[event["pid"]] = arguments["name"]
        elif name == "thread_name":
            self.threads[event["pid"], event["tid"]] = arguments["name"]
        else:
            assert name in ("process_sort_index", "thread_sort_index")
            assert isinstance(arguments["sort_index"], int)

    def _slice(self, event, by_thread):
        for key in ("ts", "dur"):
            assert isinstance(event[key], decimal.Decimal) and event[key] >= 0
        by_thread[event["pid"], event["tid"]].append(event)

    def _count(self, event, _):
        (value,) = event["args"].values()
        assert isinstance(value, (int, decimal.Decimal))
        self.counts.append(Count(self.processes[event["pid"]], event["name"], event["ts"], float(value)))

    def _nest(self, place, events):
        group, track = self.processes[place[0]], self.threads[place]
        ends = []
        for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
            start, end = event["ts"], event["ts"] + event["dur"]
            while ends and ends[-1] <= start:
                ends.pop()
            assert not ends or end <= ends[-1], f"{group}, {track}: {event['name']} is neither in nor beside another slice"
            depth = len(ends)
            ends.append(end)
            self.slices.append(
                Slice(group, track, event["name"], event["cat"], start, event["dur"], depth, event["args"])
            )
