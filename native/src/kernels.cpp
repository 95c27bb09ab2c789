// All kernels, compiled once for each instruction set with its own flags; DRAGOMAN_KERNELS is its name and namespace.
//
// Nothing of the standard library that is compiled (rather than inlined) is used here: the linker keeps one copy of such
// a function, and it might be one that this processor cannot run.
#include "activations.h"
#include "attention.h"
#include "gemm_float.h"
#include "gemm_int8.h"
#include "rows.h"
#include "vocabulary.h"

#if defined(__AMX_INT8__) || defined(DRAGOMAN_EMULATE_AMX)
#include "gemm_amx.h"
#define MULTIPLY_INT8 multiply_int8_by_tiles
#else
#define MULTIPLY_INT8 multiply_int8_by_rows
#endif

#define NAME_OF(name) #name
#define NAME(name) NAME_OF(name)

namespace DRAGOMAN_KERNELS {

extern const dragoman::TrainKernels train_table;  // train/kernels.cpp

extern const dragoman::Kernels table;
const dragoman::Kernels table = {
    NAME(DRAGOMAN_KERNELS),
    kLargest,
    quantize,
    MULTIPLY_INT8,
    multiply_float,
    norm,
    activate,
    embed,
    scan,
    attention_kernels<float>(),
    attention_kernels<BFloat16>(),
    &train_table,
};

}  // namespace DRAGOMAN_KERNELS
