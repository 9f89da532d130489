"""Reads Perfetto traces with PyPI's protobuf: messages made here from the public field numbers, apart from the .proto that
moesim is built with, and slices put together as a trace processor does it, by timestamps and the order of packets."""

import collections

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TYPES = {
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "uint32": descriptor_pb2.FieldDescriptorProto.TYPE_UINT32,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "uint64": descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
    "double": descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE,
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
}

# perfetto/protos/perfetto/trace; "*" repeated.
_MESSAGES = {
    "Trace": {1: "packet TracePacket *"},
    "TracePacket": {
        8: "timestamp uint64",
        10: "trusted_packet_sequence_id uint32",
        11: "track_event TrackEvent",
        12: "interned_data InternedData",
        13: "sequence_flags uint32",
        60: "track_descriptor TrackDescriptor",
    },
    "TrackDescriptor": {
        1: "uuid uint64",
        2: "name string",
        3: "process ProcessDescriptor",
        5: "parent_uuid uint64",
        8: "counter CounterDescriptor",
        11: "child_ordering int32",
        12: "sibling_order_rank int32",
        19: "process_ordering int32",
    },
    "ProcessDescriptor": {1: "pid int32", 6: "process_name string"},
    "CounterDescriptor": {6: "unit_name string"},
    "TrackEvent": {
        3: "category_iids uint64 *",
        4: "debug_annotations DebugAnnotation *",
        9: "type int32",
        10: "name_iid uint64",
        11: "track_uuid uint64",
        22: "categories string *",
        23: "name string",
        44: "double_counter_value double",
    },
    "DebugAnnotation": {
        1: "name_iid uint64",
        4: "int_value int64",
        5: "double_value double",
        6: "string_value string",
        10: "name string",
    },
    "InternedData": {
        1: "event_categories Interned *",
        2: "event_names Interned *",
        3: "debug_annotation_names Interned *",
    },
    "Interned": {1: "iid uint64", 2: "name string"},
}

SLICE_BEGIN, SLICE_END, COUNTER = 1, 2, 4
STATE_CLEARED, NEEDS_STATE = 1, 2

Slice = collections.namedtuple("Slice", "group track name category begin_ns end_ns depth arguments")
Count = collections.namedtuple("Count", "group counter unit ns value")


def trace_class():
    file = descriptor_pb2.FileDescriptorProto(name="perfetto_by_number.proto", package="by_number", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, text in fields.items():
            parts = text.split()
            field = message.field.add(name=parts[0], number=number)
            field.label = field.LABEL_REPEATED if parts[2:] else field.LABEL_OPTIONAL
            if parts[1] in _TYPES:
                field.type = _TYPES[parts[1]]
            else:
                field.type = field.TYPE_MESSAGE
                field.type_name = ".by_number." + parts[1]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("by_number.Trace"))


def unknown_bytes(message):
    """Bytes of fields that the messages here do not have."""
    copy = type(message)()
    copy.CopyFrom(message)
    copy.DiscardUnknownFields()
    return len(message.SerializeToString()) - len(copy.SerializeToString())


class Reader:
    """slices: in the order of their begins; counts: in the order of the file; groups: their names."""

    def __init__(self, data):
        trace = trace_class()()
        used = trace.MergeFromString(data)
        assert used == len(data), "trailing bytes"
        assert unknown_bytes(trace) == 0, "fields whose numbers are not Perfetto's"
        assert trace.packet[0].sequence_flags & STATE_CLEARED
        self.descriptors = {}
        self._names = collections.defaultdict(dict)  # kind -> iid -> name
        self.counts = []
        events = []
        for packet in trace.packet:
            assert packet.trusted_packet_sequence_id == 1
            if packet.HasField("track_descriptor"):
                self._describe(packet.track_descriptor)
            if packet.HasField("interned_data"):
                for kind in ("event_categories", "event_names", "debug_annotation_names"):
                    for entry in getattr(packet.interned_data, kind):
                        assert entry.iid not in self._names[kind] and entry.iid > 0
                        self._names[kind][entry.iid] = entry.name
            if packet.HasField("track_event"):
                assert packet.sequence_flags & NEEDS_STATE
                assert packet.HasField("timestamp")
                events.append(self._resolve(packet))
        events.sort(key=lambda event: event["ns"])  # stable: equal times in the order of their packets
        self._build(events)

    def _describe(self, descriptor):
        assert descriptor.uuid not in self.descriptors
        if descriptor.HasField("parent_uuid"):
            assert self.descriptors[descriptor.parent_uuid].HasField("process")
        self.descriptors[descriptor.uuid] = descriptor

    def _resolve(self, packet):
        event = packet.track_event
        assert event.track_uuid in self.descriptors
        name = event.name
        if event.HasField("name_iid"):
            name = self._names["event_names"][event.name_iid]
        categories = [self._names["event_categories"][iid] for iid in event.category_iids] + list(event.categories)
        arguments = {}
        for annotation in event.debug_annotations:
            key = annotation.name
            if annotation.HasField("name_iid"):
                key = self._names["debug_annotation_names"][annotation.name_iid]
            values = [
                getattr(annotation, field)
                for field in ("int_value", "double_value", "string_value")
                if annotation.HasField(field)
            ]
            assert len(values) == 1 and key not in arguments, key
            arguments[key] = values[0]
        return {
            "ns": packet.timestamp,
            "type": event.type,
            "track": event.track_uuid,
            "name": name,
            "category": ",".join(categories),
            "arguments": arguments,
            "value": event.double_counter_value,
        }

    def _place(self, uuid):
        descriptor = self.descriptors[uuid]
        return self.descriptors[descriptor.parent_uuid].process.process_name, descriptor.name

    def _build(self, events):
        stacks = collections.defaultdict(list)
        slices = []
        for event in events:
            group, track = self._place(event["track"])
            if event["type"] == COUNTER:
                descriptor = self.descriptors[event["track"]]
                assert descriptor.HasField("counter")
                self.counts.append(Count(group, track, descriptor.counter.unit_name, event["ns"], event["value"]))
            elif event["type"] == SLICE_BEGIN:
                stack = stacks[event["track"]]
                stack.append(len(slices))
                slices.append([group, track, event, None, len(stack) - 1])
            else:
                assert event["type"] == SLICE_END
                slices[stacks[event["track"]].pop()][3] = event["ns"]  # an end without a begin: IndexError
        assert not any(stacks.values()), "slices without an end"
        self.slices = [
            Slice(group, track, begin["name"], begin["category"], begin["ns"], end, depth, begin["arguments"])
            for group, track, begin, end, depth in slices
        ]
        self.groups = [d.process.process_name for d in self.descriptors.values() if d.HasField("process")]
