// The training's kernels, compiled once for each instruction set; see ../kernels.cpp.
#include "attention.h"
#include "products.h"
#include "rows.h"

#if defined(__AMX_BF16__) || defined(DRAGOMAN_EMULATE_AMX)
#include "products_amx.h"
#define HALVES {true, packed_bytes_halves, pack_halves, multiply_tiles}
#elif defined(__AVX512BF16__) || defined(DRAGOMAN_EMULATE_BF16)
#include "products_bf16.h"
#define HALVES {true, packed_bytes_halves, pack_halves, multiply_halves}
#else
#define HALVES {false, packed_bytes, pack<true>, multiply_rounded}
#endif

#define NAME_OF(name) #name
#define NAME(name) NAME_OF(name)

namespace DRAGOMAN_KERNELS {

extern const dragoman::TrainKernels train_table;
const dragoman::TrainKernels train_table = {
    NAME(DRAGOMAN_KERNELS),
    {true, packed_bytes, pack<false>, multiply},
    HALVES,
    train_norm,
    train_norm_back,
    train_dropout,
    train_activate,
    train_activate_back,
    train_column_sums,
    train_loss,
    train_attend,
    train_attend_back,
    train_add,
    train_sum_of_squares,
    train_update,
    train_look_ahead,
    train_step,
};

}  // namespace DRAGOMAN_KERNELS
