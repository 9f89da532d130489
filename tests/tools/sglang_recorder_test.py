"""python3 sglang_recorder_test.py: tools/sglang_recorder_to_routing on dumps made here as torch.save lays them out."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import pickle
import struct
import sys
import tempfile
import unittest
import zipfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("converter", os.path.join(ROOT, "tools", "sglang_recorder_to_routing"))
SPEC = importlib.util.spec_from_loader("converter", LOADER)
converter = importlib.util.module_from_spec(SPEC)
LOADER.exec_module(converter)


class Global:
    """Pickled as a name of a module that need not be there."""

    def __init__(self, module, name):
        self.module, self.name = module, name


class Fake:
    """A tensor to be pickled."""

    def __init__(self, values, size, stride=None, kind="IntStorage", offset=0):
        self.values, self.size, self.kind, self.offset = values, size, kind, offset
        self.stride = stride or [self.steps(size, i) for i in range(len(size))]

    @staticmethod
    def steps(size, dimension):
        step = 1
        for length in size[dimension + 1:]:
            step *= length
        return step


class Pickler(pickle._Pickler):
    """Python's own pickler, with torch's names and persistent storages."""

    def __init__(self, file):
        super().__init__(file, protocol=2)
        self.storages = []

    def persistent_id(self, value):
        if isinstance(value, tuple) and value and value[0] == "storage":
            return value
        return None

    def save(self, value, save_persistent_id=True):
        if isinstance(value, Global):
            self.write(pickle.GLOBAL + f"{value.module}\n{value.name}\n".encode())
        elif isinstance(value, Fake):
            self.save(Global("torch._utils", "_rebuild_tensor_v2"))
            self.storages.append(value)
            kind = Global("torch", value.kind)
            storage = ("storage", kind, str(len(self.storages) - 1), "cpu", len(value.values))
            hooks = Global("collections", "OrderedDict")
            self.write(pickle.MARK)
            self.save(storage)
            self.save(value.offset)
            self.save(tuple(value.size))
            self.save(tuple(value.stride))
            self.save(False)
            self.save(hooks)
            self.write(pickle.EMPTY_TUPLE + pickle.REDUCE)
            self.write(pickle.TUPLE + pickle.REDUCE)
        else:
            super().save(value, save_persistent_id)


CODES = {"IntStorage": "i", "LongStorage": "q", "FloatStorage": "f"}


def dump(folder, content, name="dump.pt", **members):
    path = os.path.join(folder, name)
    buffer = io.BytesIO()
    pickler = Pickler(buffer)
    pickler.dump(content)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("dump/data.pkl", buffer.getvalue())
        archive.writestr("dump/byteorder", members.get("byteorder", "little"))
        for key, storage in enumerate(pickler.storages):
            data = struct.pack(f"<{len(storage.values)}{CODES[storage.kind]}", *storage.values)
            archive.writestr(f"dump/data/{key}", data[: members.get("cut", len(data))])
    return path


def lines_of(path, topk=None, model=None):
    return list(converter.convert(converter.load(path), os.path.basename(path), topk, model))


# Two layers of four logical experts in five slots: expert 0 has two replicas. The first layer is dense.
MAP = Fake([0, 1, 2, 3, 0, 0, 1, 2, 3, 0], [2, 5], kind="LongStorage")


def padded(rows):
    return [number for row in rows for number in row + [-1] * (8 - len(row))]


class Recorder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_stat_counts_steps_and_layers(self):
        count = Fake([3, 1, 0, 0, 0, 2, 2, 0, 1, 1, 1, 1, 0, 0, 2, 2], [2, 2, 4])
        path = dump(self.folder, {"rank": 0, "logical_count": count, "average_utilization_rate_over_window": {4: 0.5}})
        lines = lines_of(path, topk=2, model="toy")
        self.assertEqual(lines[0], {"schema": "moesim.routing/1", "model": "toy", "experts": 4, "topk": 2,
                                    "source": "dump.pt (SGLang expert distribution recorder)"})
        self.assertEqual(lines[1], {"step": 0, "layer": 0, "counts": [3, 1, 0, 0]})
        self.assertEqual(lines[4], {"step": 1, "layer": 1, "counts": [0, 0, 2, 2]})

    def test_per_pass_adds_the_replicas_of_an_expert(self):
        record = {"forward_pass_id": 7, "rank": 0, "gatherer_key": "primary",
                  "global_physical_count": Fake([0] * 5 + [1, 2, 3, 4, 5], [2, 5])}
        lines = lines_of(dump(self.folder, {"records": [record], "last_physical_to_logical_map": MAP}))
        self.assertEqual(lines[0]["experts"], 4)
        self.assertEqual(lines[2], {"step": 7, "layer": 1, "counts": [6, 2, 3, 4]})

    def test_per_token_is_the_committed_routing(self):
        def record(number, rows):
            tokens = len(rows)
            return {"forward_pass_id": number, "rank": 0, "gatherer_key": "primary", "input_ids": [5] * tokens,
                    "positions": list(range(tokens)), "extend_seq_lens": None, "forward_mode": 1,
                    "topk_ids_of_layer": Fake(padded([[]] * tokens + rows), [2, tokens, 8]), "misc_objects": [],
                    "global_physical_count": Fake([0] * 10, [2, 5])}
        content = {"records": [record(7, [[4, 1], [2, 3], [1, 2]]), record(8, [[3, 0]])],
                   "last_physical_to_logical_map": MAP}
        lines = lines_of(dump(self.folder, content, "expert_distribution_recorder_1_0.pt"))
        with open(os.path.join(ROOT, "tests", "data", "routing", "sglang_recorder.jsonl"), encoding="utf-8") as file:
            self.assertEqual(lines, [json.loads(line) for line in file])

    def test_strides_and_offsets_are_followed(self):
        count = Fake([9, 1, 2, 3, 4, 5, 6], [2, 3], stride=[1, 2], offset=1)
        lines = lines_of(dump(self.folder, {"logical_count": count}))
        self.assertEqual([line["counts"] for line in lines[1:]], [[1, 3, 5], [2, 4, 6]])

    def assert_refused(self, path, text):
        with self.assertRaises(converter.WrongInput) as caught:
            lines_of(path)
        self.assertIn(text, str(caught.exception))

    def test_nothing_named_in_the_pickle_is_run(self):
        mark = os.path.join(self.folder, "ran")

        class Evil:
            def __reduce__(self):
                return os.system, (f"touch {mark}",)

        self.assert_refused(dump(self.folder, {"logical_count": Evil()}), "system in the pickle, which is not rebuilt")
        for module, name in (("builtins", "eval"), ("torch", "load"), ("torch.storage", "_load_from_bytes"),
                             ("collections", "namedtuple")):
            self.assert_refused(dump(self.folder, {"a": Global(module, name)}), f"{module}.{name} in the pickle")
        self.assertFalse(os.path.exists(mark))

    def test_wrong_content_is_named(self):
        self.assert_refused(dump(self.folder, [1]), "neither 'logical_count' nor 'records'")
        self.assert_refused(dump(self.folder, {"logical_count": 3}), "int as 'logical_count'")
        self.assert_refused(dump(self.folder, {"logical_count": Fake([1, 2], [2])}), "expected a tensor of 2 or 3")
        self.assert_refused(dump(self.folder, {"records": []}), "'last_physical_to_logical_map'")
        record = {"topk_ids_of_layer": Fake(padded([[]] + [[5]]), [2, 1, 8])}
        self.assert_refused(dump(self.folder, {"records": [record], "last_physical_to_logical_map": MAP}),
                            "physical expert 5 of layer 1")

    def test_damage_is_named(self):
        count = Fake([1, 2, 3, 4], [2, 2])
        self.assert_refused(dump(self.folder, {"logical_count": count}, cut=8), "in a storage of 2")
        self.assert_refused(dump(self.folder, {"logical_count": count}, cut=7), "a storage of 7 bytes")
        self.assert_refused(dump(self.folder, {"logical_count": Fake([1], [2, 2])}), "in a storage of 1")
        self.assert_refused(dump(self.folder, {"logical_count": Fake([1], [1 << 40, 1], stride=[0, 0])}), "elements")
        self.assert_refused(dump(self.folder, {"logical_count": count}, byteorder="big"), "little-endian")
        fraction = Fake([0.5, 1], [1, 2], kind="FloatStorage")
        self.assert_refused(dump(self.folder, {"logical_count": fraction}), "not whole")
        path = os.path.join(self.folder, "text.pt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("no archive")
        self.assert_refused(path, "expected what torch.save writes")
        self.assert_refused(os.path.join(self.folder, "none.pt"), "No such file")

    def test_every_truncation_of_the_pickle_is_refused(self):
        whole = io.BytesIO()
        Pickler(whole).dump({"logical_count": Fake([1, 2], [1, 2])})
        path = os.path.join(self.folder, "cut.pt")
        for size in range(len(whole.getvalue())):
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("dump/data.pkl", whole.getvalue()[:size])
                archive.writestr("dump/data/0", struct.pack("<2i", 1, 2))
            with self.assertRaises(converter.WrongInput):
                lines_of(path)

    def test_the_program_says_what_is_wrong_in_one_line(self):
        errors = io.StringIO()
        sys.argv = ["sglang_recorder_to_routing", os.path.join(self.folder, "none.pt")]
        with contextlib.redirect_stderr(errors):
            self.assertEqual(converter.main(), 2)
        self.assertEqual(errors.getvalue().count("\n"), 1)
        self.assertIn("none.pt: found No such file", errors.getvalue())


if __name__ == "__main__":
    unittest.main()
