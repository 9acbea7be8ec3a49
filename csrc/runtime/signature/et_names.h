// et_names.h — names of a method's inputs and outputs, as its model has them: parameters of
// `forward`, keys of dicts, variables that are returned (`logits`). Beside the core: a program that
// never asks for a name does not link it. The exporter keeps names in the text of the input
// structure; files of upstream's exporter have none.
#ifndef ET_NAMES_H
#define ET_NAMES_H

#include "runtime/et.h"

#ifdef __cplusplus
extern "C" {
#endif

// Writes the name of input or output i, ended by NUL, into name[room]. Bytes are UTF-8 if the
// exporter wrote them. Takes the facts that et_program_method_info gave; no memory, any thread.
// ET_NOT_FOUND: the file has no names. ET_INVALID_ARGUMENT: there is no such input or output, or
// the name needs more room, which the message says. ET_INVALID_PROGRAM: the text is damaged. After
// a failure name is empty if it has room.
ET_API et_status et_method_slot_name(const et_method_info *info, et_slot_kind kind, size_t i,
                                     char *name, size_t room, et_error *err);

#ifdef __cplusplus
}
#endif

#endif  // ET_NAMES_H
