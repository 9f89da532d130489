// Built with MOESIM_WITHOUT_CUBLAS where the library is not there: then its rows are left out.
#ifndef MOESIM_WITHOUT_CUBLAS
#include <cublas_v2.h>
#endif

#include <algorithm>
#include <cstdlib>

#include "kernels.cuh"

namespace harness {

#ifdef MOESIM_WITHOUT_CUBLAS

struct Cublas::Grouped {};
Cublas::Cublas() = default;
Cublas::~Cublas() = default;
bool Cublas::available() const { return false; }
void Cublas::loop(cudaStream_t, const Shape&, const Layer&, bool, const Routing&, const __nv_bfloat16*,
                  __nv_bfloat16*) {}
Cublas::Grouped* Cublas::prepare(const Shape&, const Layer&, bool, const Routing&, const __nv_bfloat16*,
                                 __nv_bfloat16*) {
  return nullptr;
}
void Cublas::release(Grouped*) {}
bool Cublas::grouped(cudaStream_t, const Grouped&) { return false; }
void Cublas::square(cudaStream_t, int, int, int, const __nv_bfloat16*, const __nv_bfloat16*, __nv_bfloat16*) {}

#else

namespace {
void check_blas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::fprintf(stderr, "%s: %s\n", what, cublasGetStatusString(status));
  std::exit(3);
}
cublasHandle_t as_handle(void* p) { return static_cast<cublasHandle_t>(p); }
constexpr std::size_t kWorkspaceBytes = 64u << 20;
}  // namespace

Cublas::Cublas() {
  cublasHandle_t handle = nullptr;
  check_blas(cublasCreate(&handle), "cublasCreate");
  CUDA_CHECK(cudaMalloc(&workspace_, kWorkspaceBytes));
  handle_ = handle;
}
Cublas::~Cublas() {
  cublasDestroy(as_handle(handle_));
  cudaFree(workspace_);
}

// Row-major y[m][n] = x[m][k] w[n][k]^T is, column-major, y'(n x m) = w'^T x'.
void Cublas::square(cudaStream_t stream, int m, int n, int k, const __nv_bfloat16* a, const __nv_bfloat16* b,
                    __nv_bfloat16* c) {
  const float one = 1, zero = 0;
  check_blas(cublasSetStream(as_handle(handle_), stream), "cublasSetStream");
  check_blas(cublasSetWorkspace(as_handle(handle_), workspace_, kWorkspaceBytes), "cublasSetWorkspace");
  check_blas(cublasGemmEx(as_handle(handle_), CUBLAS_OP_T, CUBLAS_OP_N, n, m, k, &one, b, CUDA_R_16BF, k, a,
                          CUDA_R_16BF, k, &zero, c, CUDA_R_16BF, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
             "cublasGemmEx");
}

void Cublas::loop(cudaStream_t stream, const Shape& shape, const Layer& layer, bool up, const Routing& routing,
                  const __nv_bfloat16* input, __nv_bfloat16* output) {
  const int n = up ? 2 * shape.intermediate : shape.hidden, k = up ? shape.hidden : shape.intermediate;
  const auto* weights = reinterpret_cast<const __nv_bfloat16*>(up ? layer.up : layer.down);
  for (std::size_t i = 0; i < routing.experts.size(); ++i)
    square(stream, routing.rows[i], n, k, input + static_cast<std::int64_t>(routing.first[i]) * k,
           weights + static_cast<std::int64_t>(routing.experts[i]) * n * k,
           output + static_cast<std::int64_t>(routing.first[i]) * n);
}

struct Cublas::Grouped {
  std::vector<cublasOperation_t> transpose_a, transpose_b;
  std::vector<int> m, n, k, lda, ldb, ldc, size;
  std::vector<float> one, zero;
  const void** a = nullptr;  // device
  const void** b = nullptr;
  void** c = nullptr;
};

Cublas::Grouped* Cublas::prepare(const Shape& shape, const Layer& layer, bool up, const Routing& routing,
                                 const __nv_bfloat16* input, __nv_bfloat16* output) {
  auto* g = new Grouped;
  const int n = up ? 2 * shape.intermediate : shape.hidden, k = up ? shape.hidden : shape.intermediate;
  const auto* weights = reinterpret_cast<const __nv_bfloat16*>(up ? layer.up : layer.down);
  std::vector<const void*> a, b;
  std::vector<void*> c;
  for (std::size_t i = 0; i < routing.experts.size(); ++i) {
    g->transpose_a.push_back(CUBLAS_OP_T);
    g->transpose_b.push_back(CUBLAS_OP_N);
    g->m.push_back(n);
    g->n.push_back(routing.rows[i]);
    g->k.push_back(k);
    g->lda.push_back(k);
    g->ldb.push_back(k);
    g->ldc.push_back(n);
    g->size.push_back(1);
    g->one.push_back(1);
    g->zero.push_back(0);
    a.push_back(weights + static_cast<std::int64_t>(routing.experts[i]) * n * k);
    b.push_back(input + static_cast<std::int64_t>(routing.first[i]) * k);
    c.push_back(output + static_cast<std::int64_t>(routing.first[i]) * n);
  }
  const std::size_t bytes = a.size() * sizeof(void*);
  CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&g->a), bytes));
  CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&g->b), bytes));
  CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&g->c), bytes));
  CUDA_CHECK(cudaMemcpy(g->a, a.data(), bytes, cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(g->b, b.data(), bytes, cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(g->c, c.data(), bytes, cudaMemcpyHostToDevice));
  return g;
}

void Cublas::release(Grouped* g) {
  cudaFree(g->a);
  cudaFree(g->b);
  cudaFree(g->c);
  delete g;
}

bool Cublas::grouped(cudaStream_t stream, const Grouped& g) {
  if (cublasSetStream(as_handle(handle_), stream) != CUBLAS_STATUS_SUCCESS) return false;
  if (cublasSetWorkspace(as_handle(handle_), workspace_, kWorkspaceBytes) != CUBLAS_STATUS_SUCCESS) return false;
  return cublasGemmGroupedBatchedEx(as_handle(handle_), g.transpose_a.data(), g.transpose_b.data(), g.m.data(),
                                    g.n.data(), g.k.data(), g.one.data(), g.a, CUDA_R_16BF, g.lda.data(), g.b,
                                    CUDA_R_16BF, g.ldb.data(), g.zero.data(), g.c, CUDA_R_16BF, g.ldc.data(),
                                    static_cast<int>(g.m.size()), g.size.data(),
                                    CUBLAS_COMPUTE_32F) == CUBLAS_STATUS_SUCCESS;
}

bool Cublas::available() const { return handle_ != nullptr; }

#endif

}  // namespace harness
