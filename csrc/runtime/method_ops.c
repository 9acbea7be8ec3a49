// method_ops.c — operators and backends of a method, looked up in the caller's tables. All missing
// ones are reported at once. The tensors of each call are checked against the types and ranks that
// its kernel supports.
#include "runtime/bytes.h"
#include "runtime/method_loader.h"
#include "runtime/op_table.h"

// Checks one tensor: argument k of a call, or a member of the list that is argument k.
static et_status check_tensor(const eti_loader *l, const et_op *op, size_t k, bool is_written,
                              uint32_t value) {
  const uint8_t *table;
  eti_tensor_facts t;
  if (eti_plan_value(&l->plan, value, &table) != PTE_TENSOR)
    return ET_OK;  // None in an optional list
  ET_TRY(eti_tensor_read(table, &t, l->err));
  const et_dtype_set set = is_written ? op->out_dtypes : op->in_dtypes;
  ET_CHECK(!is_written || !eti_is_constant(&t), l->err, ET_INVALID_PROGRAM,
           "argument %zu is a constant, which the operator would write", k);
  ET_CHECK(set == 0 || (set & ET_DTYPE_BIT(t.dtype)) != 0, l->err, ET_NOT_SUPPORTED,
           "argument %zu: the kernel does not support element type %s for %s", k,
           et_dtype_name((et_dtype)t.dtype), is_written ? "outputs" : "inputs");
  ET_CHECK(op->max_rank == 0 || t.rank <= op->max_rank, l->err, ET_NOT_SUPPORTED,
           "argument %zu: expected a rank of at most %d, got %zu", k, op->max_rank, t.rank);
  return ET_OK;
}

// Arguments that a call writes: the last entry, which is the result or the list of results, and
// those in the kernel's `writes`. A tensor that is two arguments must fit both.
et_status eti_check_call(const eti_loader *l, const et_op *op, const eti_instruction_facts *in,
                         uint32_t *writes) {
  ET_ASSERT(op != NULL);  // by eti_check_missing
  ET_CHECK(in->n_args == op->n_args, l->err, ET_INVALID_PROGRAM, "expected %d arguments, got %lu",
           op->n_args, (unsigned long)in->n_args);
  for (size_t k = in->n_args; k-- > 0;) {  // from the result, whose kind decides about writes
    const uint32_t value = eti_u32(in->args + 4 * k);
    const uint8_t *table;
    const unsigned code = eti_plan_value(&l->plan, value, &table);
    const bool is_result = k + 1 == in->n_args;
    const eti_vector items = eti_tensor_list(code, table);
    if (is_result) *writes = eti_op_writes(op, code == PTE_TENSOR || items.data != NULL);
    const bool is_written =
        (is_result && !op->returns_nothing) || (k < 32 && (*writes >> k & 1u) != 0);
    ET_TRY(check_tensor(l, op, k, is_written, value));
    for (size_t i = 0; i < items.n; i++) {
      const int32_t member = eti_i32(items.data + 4 * i);
      if (member >= 0) ET_TRY(check_tensor(l, op, k, is_written, (uint32_t)member));
    }
  }
  return ET_OK;
}

const et_op *eti_loader_op(eti_loader *l, size_t i) {
  const uint8_t *table = eti_fb_at(l->plan.operators, i);
  eti_found_op *found = &l->found[i % ETI_FOUND_OPS];
  if (found->table != table) {
    found->table = table;
    found->op = eti_op_find(l->config->ops, eti_fb_string(table, PTE_OPERATOR_NAME),
                            eti_fb_string(table, PTE_OPERATOR_OVERLOAD));
  }
  return found->op;
}

const et_backend *eti_loader_backend(const eti_loader *l, size_t i) {
  const char *id = eti_fb_string(eti_fb_at(l->plan.delegates, i), PTE_DELEGATE_ID);
  const et_backend_table *table = l->config->backends;
  for (size_t k = 0; table != NULL && k < table->n_backends; k++) {
    const et_backend *backend = table->backends[k];
    if (strcmp(backend->id, id) == 0)
      return backend->is_available == NULL || backend->is_available() ? backend : NULL;
  }
  return NULL;
}

#if ET_MESSAGES
// Element types of a call's tensors: "aten::foo.out(f32, i64, f32)".
static void append_call(et_error *err, const eti_plan *plan, const eti_instruction_facts *in) {
  const char *name, *overload, *comma = "";
  eti_instruction_name(plan, in, &name, &overload);
  const bool has_overload = overload != NULL && *overload != '\0';
  ET_APPEND(err, " %s%s%s(", name, has_overload ? "." : "", has_overload ? overload : "");
  for (size_t k = 0; k + 1 < in->n_args; k++) {  // the last one repeats the result
    const uint8_t *table;
    if (eti_plan_value(plan, eti_u32(in->args + 4 * k), &table) != PTE_TENSOR) continue;
    ET_APPEND(err, "%s%s", comma, et_dtype_name((et_dtype)eti_fb_u8(table, PTE_TENSOR_DTYPE)));
    comma = ", ";
  }
  ET_APPEND(err, ")");
}

// Records an operator as named; false when it already was. Hashes may collide, so some of very many
// missing operators go unnamed; the message has no room for them either.
static bool is_new(uint32_t *named, uint32_t op) {
  const uint32_t word = op % ETI_WRITTEN_BITS / 32, bit = 1u << op % 32;
  const bool was_named = (named[word] & bit) != 0;
  named[word] |= bit;
  return !was_named;
}
#else
#define append_call(err, plan, in) ((void)(err))
#define is_new(named, op) false
#endif

et_status eti_check_missing(eti_loader *l) {
  et_status status = ET_OK;
  for (size_t i = 0; i < l->plan.n_instructions; i++) {
    eti_instruction_facts in;
    ET_TRY(eti_instruction_read(&l->plan, i, &in, l->err));
    if (in.kind != PTE_KERNEL_CALL || eti_loader_op(l, (size_t)in.index) != NULL) continue;
    if (status == ET_OK) status = ET_FAIL(l->err, ET_OPERATOR_MISSING, "no kernel for:");
    if (is_new(l->written, (uint32_t)in.index)) append_call(l->err, &l->plan, &in);
  }
  bool is_first = true;
  for (size_t i = 0; i < l->plan.delegates.n; i++) {
    if (eti_loader_backend(l, i) != NULL) continue;
    if (status == ET_OK) status = ET_FAIL(l->err, ET_NOT_FOUND, "%s", "");
    if (is_first)
      ET_APPEND(l->err, "%sno available backend for:", status == ET_OPERATOR_MISSING ? "; " : "");
    is_first = false;
    ET_APPEND(l->err, " %s", eti_fb_string(eti_fb_at(l->plan.delegates, i), PTE_DELEGATE_ID));
  }
#if ET_MESSAGES
  if (is_first) return status;
  ET_APPEND(l->err, " (available:");
  const et_backend_table *table = l->config->backends;
  for (size_t k = 0; table != NULL && k < table->n_backends; k++) {
    const et_backend *backend = table->backends[k];
    if (backend->is_available == NULL || backend->is_available())
      ET_APPEND(l->err, " %s", backend->id);
  }
  ET_APPEND(l->err, "); export without its partitioner, or build the runtime with it");
#endif
  return status;
}
