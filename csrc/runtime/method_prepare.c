// method_prepare.c — prepare steps of kernels and init of delegates, which run while their method
// is measured and again while it is loaded. Both claim from the method's arena; their arguments are
// temporary, in the loader's room.
#include "runtime/bytes.h"
#include "runtime/method_loader.h"

static et_prepare_ctx prepare_ctx(eti_loader *l) {
  const et_pool *pool = l->config->pool;
  ET_ASSERT(l->arena.measuring == (l->method == NULL));
  const et_prepare_ctx ctx = {
      .err = l->err,
      .n_threads = pool == NULL || pool->n_threads == 0 ? 1 : pool->n_threads,
      .measuring = l->method == NULL,
      .arena = &l->arena};
  return ctx;
}

static et_status finish_prepare(eti_loader *l, const et_prepare_ctx *ctx) {
  if (ctx->scratch_bytes > l->scratch_bytes) l->scratch_bytes = ctx->scratch_bytes;
  return ctx->status != ET_OK ? ctx->status : eti_arena_status(&l->arena, l->err);
}

et_status eti_prepare_call(eti_loader *l, const eti_instruction_facts *in, et_call *call) {
  const et_op *op = call->op;
  const bool is_needed = op->needs_prepare;
  if (op->prepare == NULL || (l->config->no_prepare && !is_needed)) return ET_OK;
  eti_temporary temporary = {.room = eti_arena_over((et_span){l->room, sizeof l->room})};
  et_value *values = ETI_CLAIM(&temporary.room, et_value, in->n_args);
  et_value **args = ETI_CLAIM(&temporary.room, et_value *, in->n_args);
  if (temporary.room.failed) {
    ET_CHECK(!is_needed, l->err, ET_OUT_OF_RESOURCES,
             "expected at most %u bytes of arguments (ET_PREPARE_ROOM_BYTES), got %lu arguments",
             ET_PREPARE_ROOM_BYTES, (unsigned long)in->n_args);
    return ET_OK;
  }
  for (size_t k = 0; k < in->n_args; k++) {
    args[k] = &values[k];
    (void)eti_build_temporary(l, eti_u32(in->args + 4 * k), &temporary, args[k], false);
  }
  et_status status = ET_OK;
  if (is_needed || !temporary.has_gaps) {
    et_prepare_ctx ctx = prepare_ctx(l);
    ctx.is_minimal = temporary.has_gaps;
    status = op->prepare(&ctx, args);
    if (status == ET_OK) status = finish_prepare(l, &ctx);
    call->state = ctx.state;
  }
  for (size_t k = 0; k < temporary.n_blobs; k++) eti_source_release(&temporary.blobs[k]);
  eti_arena_end(&temporary.room);
  return status;
}

// ---- Delegates

static et_status init_payload(eti_loader *l, const uint8_t *delegate, const et_backend *backend,
                              const et_blob *payload, eti_delegate *out, bool *keep) {
  et_arena room = eti_arena_over((et_span){l->room, sizeof l->room});
  const eti_vector list = eti_fb_vector(delegate, PTE_DELEGATE_SPECS);
  et_compile_spec *specs = ETI_CLAIM(&room, et_compile_spec, list.n);
  ET_CHECK(specs != NULL, l->err, ET_OUT_OF_RESOURCES,
           "%zu compile specs do not fit in %u bytes (ET_PREPARE_ROOM_BYTES)", list.n,
           ET_PREPARE_ROOM_BYTES);
  for (size_t k = 0; k < list.n; k++) {
    const uint8_t *spec = eti_fb_at(list, k);
    const eti_vector value = eti_fb_vector(spec, PTE_SPEC_VALUE);
    const et_compile_spec filled = {eti_fb_string(spec, PTE_SPEC_KEY), value.data, value.n};
    specs[k] = filled;
  }
  ET_ASSERT(backend != NULL);  // by eti_check_missing
  et_prepare_ctx ctx = prepare_ctx(l);
  const et_named_data named =
      eti_named_data_handle(l->method == NULL ? &l->named : &l->method->named);
  et_delegate_init init = {.prepare = &ctx,
                           .method_name = l->plan.name,
                           .payload = payload->data,
                           .payload_bytes = payload->size,
                           .n_specs = list.n,
                           .specs = specs,
                           .named_data = &named,
                           .pool = l->config->pool,
                           .backend = backend};
  void *handle = NULL;
  ET_TRY(backend->init(&init, &handle));
  *keep = init.keep_payload;
  if (l->method != NULL) {
    out->backend = backend;
    out->handle = handle;
    l->method->n_ready++;
  }
  return finish_prepare(l, &ctx);
}

et_status eti_init_delegate(eti_loader *l, size_t i, eti_delegate *out) {
  const uint8_t *delegate = eti_fb_at(l->plan.delegates, i);
  eti_payload payload;
  ET_TRY(eti_payload_find(l->program, delegate, &payload, l->err));
  et_blob blob = {.data = payload.data, .size = (size_t)payload.bytes};
  if (payload.data == NULL)
    ET_TRY(eti_source_load(&l->program->file.source, payload.offset, payload.bytes, &blob, l->err));
  bool keep = false;
  const et_status status = init_payload(l, delegate, eti_loader_backend(l, i), &blob, out, &keep);
  if (status == ET_OK && keep && l->method != NULL) {
    out->payload = blob;
  } else {
    eti_source_release(&blob);
  }
  if (status != ET_OK) {
    ET_CONTEXT(l->err, "delegate %zu (%s): ", i, eti_fb_string(delegate, PTE_DELEGATE_ID));
  }
  return status;
}
