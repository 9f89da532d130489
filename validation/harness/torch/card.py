"""The card: clocks by NVML, kernels of a captured graph by the driver. Both through ctypes, both may be missing."""

import ctypes

import torch


def _library(name):
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


class Nvml:
    SM, MEMORY = 1, 2

    def __init__(self, bus_id):
        self.library, self.handle = _library("libnvidia-ml.so.1"), None
        if not self.library:
            return
        handle = ctypes.c_void_p()
        try:
            if self.library.nvmlInit_v2() != 0:
                return
            found = bus_id and self.library.nvmlDeviceGetHandleByPciBusId_v2(bus_id.encode(), ctypes.byref(handle)) == 0
            if found or self.library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0:
                self.handle = handle
        except AttributeError:  # a library without these functions
            self.handle = None

    def _get(self, kind, names, *arguments):
        if self.handle is None:
            return 0
        for name in names:
            function = getattr(self.library, name, None)
            value = kind(0)
            if function and function(self.handle, *arguments, ctypes.byref(value)) == 0:
                return value.value
        return 0

    def sm_mhz(self):
        return self._get(ctypes.c_uint, ["nvmlDeviceGetClockInfo"], self.SM)

    def max_mhz(self, which):
        return self._get(ctypes.c_uint, ["nvmlDeviceGetMaxClockInfo"], which)

    def throttle_reasons(self):
        names = ["nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetCurrentClocksEventReasons"]
        return self._get(ctypes.c_ulonglong, names)

    def power_limit_w(self):
        return self._get(ctypes.c_uint, ["nvmlDeviceGetEnforcedPowerLimit"]) / 1000

    def driver(self):
        text = ctypes.create_string_buffer(96)
        if self.handle is not None and self.library.nvmlSystemGetDriverVersion(text, 96) == 0:
            return text.value.decode()
        return "unknown"


def _pci_bus_id():
    p = torch.cuda.get_device_properties(0)
    try:
        return f"{p.pci_domain_id:08x}:{p.pci_bus_id:02x}:{p.pci_device_id:02x}.0"
    except AttributeError:
        return None


class Card:
    def __init__(self):
        self.properties = torch.cuda.get_device_properties(0)
        self.nvml = Nvml(_pci_bus_id())

    def label(self):  # "h200" of "NVIDIA H200"
        return self.properties.name.removeprefix("NVIDIA ").lower().replace(" ", "-")

    def cache_bytes(self):
        return self.properties.L2_cache_size

    def source(self, date):
        import triton

        return (
            f"{self.label()}-{date}, driver {self.nvml.driver()}, CUDA {torch.version.cuda}, "
            f"PyTorch {torch.__version__.split('+')[0]}, Triton {triton.__version__}, torch harness"
        )

    def provenance(self):
        import platform

        import triton

        return {
            "device": self.properties.name,
            "driver": self.nvml.driver(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "triton": triton.__version__,
            "cuda": torch.version.cuda,
            "sms": self.properties.multi_processor_count,
            "l2_bytes": self.cache_bytes(),
            "memory_bytes": self.properties.total_memory,
            "max_sm_mhz": self.nvml.max_mhz(Nvml.SM),
            "max_memory_mhz": self.nvml.max_mhz(Nvml.MEMORY),
            "power_limit_w": self.nvml.power_limit_w(),
        }


class _KernelNode(ctypes.Structure):  # CUDA_KERNEL_NODE_PARAMS_v2
    _fields_ = [
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


_KERNEL_NODE = 0  # CU_GRAPH_NODE_TYPE_KERNEL
_SHARED_BYTES, _REGISTERS = 1, 4  # CU_FUNC_ATTRIBUTE_…
_CLUSTER = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
_MOST_NAME = 120


def _demangle(name):
    library = _library("libstdc++.so.6") if name.startswith("_Z") else None
    if library:
        function = library.__cxa_demangle
        function.restype = ctypes.c_void_p
        status = ctypes.c_int(-1)
        plain = function(name.encode(), None, None, ctypes.byref(status))
        if plain and status.value == 0:
            name = ctypes.string_at(plain).decode(errors="replace")
            ctypes.CDLL(None).free(ctypes.c_void_p(plain))
    return name[:_MOST_NAME]


def merged(facts):
    """Equal kernels once, with their number, in order of first launch."""
    result = {}
    for fact in facts:
        key = (fact["name"], tuple(fact["grid"]), tuple(fact["block"]))
        if key in result:
            result[key]["count"] += fact["count"]
        else:
            result[key] = dict(fact)
    return list(result.values())


class GraphReader:
    """Kernels of a captured graph, libraries' too."""

    def __init__(self):
        self.driver = _library("libcuda.so.1")
        self._names = {}

    def _check(self, status, what):
        if status != 0:
            raise RuntimeError(f"{what}: CUresult {status}")

    def kernels(self, graph):
        if not self.driver:
            raise OSError("no libcuda.so.1")
        d, graph = self.driver, ctypes.c_void_p(graph)
        count = ctypes.c_size_t(0)
        self._check(d.cuGraphGetNodes(graph, None, ctypes.byref(count)), "cuGraphGetNodes")
        nodes = (ctypes.c_void_p * count.value)()
        self._check(d.cuGraphGetNodes(graph, nodes, ctypes.byref(count)), "cuGraphGetNodes")
        facts = []
        for node in nodes:
            node, kind = ctypes.c_void_p(node), ctypes.c_int(-1)
            self._check(d.cuGraphNodeGetType(node, ctypes.byref(kind)), "cuGraphNodeGetType")
            if kind.value == _KERNEL_NODE:
                facts.append(self._kernel(node))
        return merged(facts)

    def _kernel(self, node):
        d, p = self.driver, _KernelNode()
        self._check(d.cuGraphKernelNodeGetParams_v2(node, ctypes.byref(p)), "cuGraphKernelNodeGetParams")
        function = ctypes.c_void_p(p.function)
        if not function and p.kernel:
            self._check(d.cuKernelGetFunction(ctypes.byref(function), ctypes.c_void_p(p.kernel)), "cuKernelGetFunction")
        name = ctypes.c_char_p()
        self._check(d.cuFuncGetName(ctypes.byref(name), function), "cuFuncGetName")
        fixed, registers = ctypes.c_int(0), ctypes.c_int(0)
        self._check(d.cuFuncGetAttribute(ctypes.byref(fixed), _SHARED_BYTES, function), "cuFuncGetAttribute")
        self._check(d.cuFuncGetAttribute(ctypes.byref(registers), _REGISTERS, function), "cuFuncGetAttribute")
        if name.value not in self._names:
            self._names[name.value] = _demangle(name.value.decode(errors="replace"))
        fact = {
            "name": self._names[name.value],
            "grid": list(p.grid),
            "block": list(p.block),
            "registers": registers.value,
            "shared_bytes": p.shared_bytes + fixed.value,
        }
        cluster = (ctypes.c_uint * 16)()  # CUlaunchAttributeValue: 64 bytes
        get = getattr(d, "cuGraphKernelNodeGetAttribute", None)
        if get and get(node, _CLUSTER, cluster) == 0:
            size = max(1, cluster[0]) * max(1, cluster[1]) * max(1, cluster[2])
            if size > 1:
                fact["cluster"] = size
        fact["count"] = 1
        return fact
