// et_chat.h — the messages of a conversation as the tokens of a prompt, beside et_tokenizer.h, from
// the constant parts of a chat template that `llm export` stores in a program ("chat_parts").
//
// A model's template is a program in Jinja's language, which is not run here: most templates put
// each message unchanged between texts that depend on the roles alone, and only for these there are
// parts. Messages are one of the system at most, then turns of user and assistant, of which the
// last is the user's. Compiles as C11 and C++17.
#ifndef ET_CHAT_H
#define ET_CHAT_H

#include "llm/et_tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum et_chat_role {
  ET_CHAT_SYSTEM,
  ET_CHAT_USER,
  ET_CHAT_ASSISTANT,
} et_chat_role;

typedef struct et_chat_message {
  et_chat_role role;
  const char *text;  // n bytes of UTF-8, not empty
  size_t n;
} et_chat_message;

// Opened parts. Fields private.
typedef struct et_chat {
  const void *parts;
} et_chat;

// Opens the parts of a program's named data, which are verified and borrowed; their address is a
// multiple of 4. ET_INVALID_PROGRAM when they are damaged.
ET_API et_status et_chat_open(et_chat *chat, const void *parts, size_t bytes, et_error *err);

// Memory that a conversation needs: ids at most, and bytes of scratch at any alignment.
typedef struct et_chat_needs {
  size_t max_ids, scratch_bytes;
} et_chat_needs;
ET_API et_chat_needs et_chat_measure(const et_chat *chat, const et_tokenizer *tokenizer,
                                     const et_chat_message *messages, size_t n);

// Encodes a conversation and the beginning of an answer to *n_ids ids. Names of special tokens in
// messages are text. ET_INVALID_ARGUMENT for roles in another order, empty messages, a system
// message where the model has none, and texts that are no UTF-8; ET_OUT_OF_RESOURCES if there are
// more than `capacity` ids.
ET_API et_status et_chat_encode(const et_chat *chat, const et_tokenizer *tokenizer,
                                const et_chat_message *messages, size_t n, uint32_t *ids,
                                size_t capacity, size_t *n_ids, et_span scratch, et_error *err);

#ifdef __cplusplus
}
#endif

#endif  // ET_CHAT_H
