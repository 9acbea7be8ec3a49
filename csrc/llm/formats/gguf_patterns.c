// gguf_patterns.c — the patterns of the names that tokenizer.ggml.pre has in GGUF files: those of
// the tokenizer.json that each name comes from. Patterns of a list split what those before left.
#include "llm/formats/gguf.h"

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define SIGNS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(end)                                                                           \
  "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" end "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER \
  "*" end "|"
#define SLASHED " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES
#define ASCII_SIGNS "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"

static const char *const DEFAULT[] = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+",
                                      "[0-9][0-9][0-9]", NULL};
static const char *const GPT_2[] = {GPT2, NULL};
static const char *const DIGITS[] = {"\\p{N}", GPT2, NULL};
static const char *const FALCON[] = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]", NULL};
static const char *const LLAMA3[] = {CONTRACTIONS "|" WORDS "\\p{N}{1,3}|" SIGNS, NULL};
static const char *const QWEN2[] = {CONTRACTIONS "|" WORDS "\\p{N}|" SIGNS, NULL};
static const char *const QWEN35[] = {
    CONTRACTIONS
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES,
    NULL};
static const char *const MINICPM5[] = {"\\p{N}{1,3}", CONTRACTIONS "|" WORDS "\\p{N}+|" SIGNS,
                                       NULL};
static const char *const UFAKZEKA[] = {WORDS "\\p{N}|" SIGNS, NULL};
static const char *const LAGUNA[] = {"[^\\n]+|[\\n]+", CONTRACTIONS "|" WORDS "\\p{N}|" SIGNS,
                                     NULL};
static const char *const SEED[] = {
    CONTRACTIONS "|" WORDS "\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES, NULL};
static const char *const BAILING[] = {
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
    NULL};
static const char *const GPT_4O[] = {CASED(CONTRACTIONS "?") "\\p{N}{1,3}|" SLASHED, NULL};
static const char *const TEKKEN[] = {CASED("") "\\p{N}|" SLASHED, NULL};
static const char *const DEEPSEEK3[] = {
    "\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
    ASCII_SIGNS
    "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES,
    NULL};
static const char *const DEEPSEEK_CODER[] = {
    "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", "\\p{N}", NULL};
static const char *const DEEPSEEK_LLM[] = {
    "[\\r\\n]",
    "\\s?[A-Za-z"
    "\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF\u0370"
    "-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5"
    "\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-"
    "\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20"
    "-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC"
    "\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6"
    "-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-"
    "\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-"
    "\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-"
    "\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-"
    "\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2\U00010CC0-\U00010CF2\U000118A0-"
    "\U000118DF\U0001E900-\U0001E943"
    "]+",
    "\\s?[!-/:-~！-／：-～‘-‟　-。]+",
    "\\s+$",
    "[一-龥ࠀ-一가-퟿]+",
    "\\p{N}+",
    NULL};
static const char *const BLOOM[] = {" ?[^(\\s|.,!?…。，、।۔،)]+", NULL};
static const char *const VIKING[] = {" ?[^(\\s|.,!?…。，、।۔،)]+", "\\p{N}", NULL};

enum { WHOLE = 1, BOS = 2 };

static const struct {
  const char *name;
  const char *const *patterns;
  int flags;
} NAMES[] = {
    {"default", DEFAULT, 0},
    {"gpt-2", GPT_2, 0},
    {"phi-2", GPT_2, 0},
    {"mpt", GPT_2, 0},
    {"olmo", GPT_2, 0},
    {"jais", GPT_2, 0},
    {"trillion", GPT_2, 0},
    {"granite-docling", GPT_2, 0},
    {"exaone4", GPT_2, 0},
    {"gigachat", GPT_2, 0},
    {"a.x-4.0", GPT_2, 0},
    {"mellum", GPT_2, 0},
    {"modern-bert", GPT_2, 0},
    {"roberta-bpe", GPT_2, 0},
    {"jina-es", GPT_2, 0},
    {"jina-de", GPT_2, 0},
    {"jina-v1-en", GPT_2, 0},
    {"jina-v2-es", GPT_2, 0},
    {"jina-v2-de", GPT_2, 0},
    {"jina-v2-code", GPT_2, 0},
    {"smollm", DIGITS, 0},
    {"starcoder", DIGITS, 0},
    {"refact", DIGITS, 0},
    {"command-r", DIGITS, 0},
    {"codeshell", DIGITS, 0},
    {"exaone", DIGITS, 0},
    {"minerva-7b", DIGITS, 0},
    {"mellum2", DIGITS, 0},
    {"falcon", FALCON, 0},
    {"llama3", LLAMA3, WHOLE | BOS},
    {"llama-v3", LLAMA3, WHOLE | BOS},
    {"llama-bpe", LLAMA3, WHOLE | BOS},
    {"falcon3", LLAMA3, WHOLE | BOS},
    {"falcon-h1", LLAMA3, WHOLE | BOS},
    {"pixtral", LLAMA3, WHOLE | BOS},
    {"midm-2.0", LLAMA3, WHOLE | BOS},
    {"lfm2", LLAMA3, WHOLE | BOS},
    {"jina-v5-nano", LLAMA3, WHOLE | BOS},
    {"dbrx", LLAMA3, 0},
    {"smaug-bpe", LLAMA3, 0},
    {"chatglm-bpe", LLAMA3, 0},
    {"glm4", LLAMA3, WHOLE},
    {"glm5", LLAMA3, WHOLE},
    {"qwen2", QWEN2, 0},
    {"deepseek-r1-qwen", QWEN2, 0},
    {"kormo", QWEN2, 0},
    {"f2llmv2", QWEN2, 0},
    {"megrez", QWEN2, 0},
    {"stablelm2", QWEN2, 0},
    {"hunyuan", QWEN2, 0},
    {"solar-open", QWEN2, 0},
    {"grok-2", QWEN2, 0},
    {"qwen35", QWEN35, 0},
    {"minicpm5", MINICPM5, WHOLE},
    {"ufakzeka", UFAKZEKA, 0},
    {"laguna", LAGUNA, 0},
    {"seed-coder", SEED, 0},
    {"bailingmoe", BAILING, 0},
    {"bailingmoe2", BAILING, 0},
    {"llada-moe", BAILING, 0},
    {"gpt-4o", GPT_4O, 0},
    {"llama4", GPT_4O, 0},
    {"kanana2", GPT_4O, 0},
    {"talkie", GPT_4O, 0},
    {"minimax-m2", GPT_4O, 0},
    {"granite-embed-multi-97m", GPT_4O, WHOLE},
    {"tekken", TEKKEN, WHOLE | BOS},
    {"deepseek-v3", DEEPSEEK3, 0},
    {"hunyuan-dense", DEEPSEEK3, 0},
    {"joyai-llm", DEEPSEEK3, 0},
    {"hy_v4", DEEPSEEK3, 0},
    {"deepseek-llm", DEEPSEEK_LLM, 0},
    {"deepseek-coder", DEEPSEEK_CODER, 0},
    {"bloom", BLOOM, 0},
    {"poro-chat", BLOOM, 0},
    {"gpt3-finnish", BLOOM, 0},
    {"viking", VIKING, 0},
};

et_status eti_gguf_splitters_of(eti_string name, eti_gguf_splitters *splitters, et_error *err) {
  for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
    if (strlen(NAMES[i].name) != name.n || memcmp(NAMES[i].name, name.bytes, name.n) != 0) continue;
    *splitters = (eti_gguf_splitters){.patterns = NAMES[i].patterns,
                                      .whole_words = (NAMES[i].flags & WHOLE) != 0,
                                      .add_bos = (NAMES[i].flags & BOS) != 0};
    return ET_OK;
  }
  char shown[ETI_SHOWN_BYTES];
  return ET_FAIL(err, ET_NOT_SUPPORTED,
                 "GGUF: expected a known tokenizer.ggml.pre, as default, gpt-2, llama-bpe, qwen2, "
                 "smollm, deepseek-llm, deepseek-v3, tekken, gpt-4o, command-r, falcon or bloom, "
                 "got '%s'",
                 eti_text_shown(name, shown));
}
