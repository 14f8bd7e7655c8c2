/*
 * script_keys.h - keys that a script uses without declaring them, guessed from its earlier runs.
 *
 *   EVALSHA s 1 mail:7 … had to wait for mail:7:lock, mail:wait, mail:8 ─► KEYS[1] + ":lock", stem + "wait", stem + number
 *   EVALSHA s 1 mail:9 … will probably use them too ◄── mail:9:lock, mail:wait, mail:9 are locked with the keys that it declares
 *
 * A name is put together from words (keys and arguments) of the call, from the stem, which is the first key up to its last ':', from constant
 * text, and from a number that is one higher in each run, if it was higher before. So a queue whose scripts make the names of its keys costs one
 * LOCK for each run, and not one for each key.
 *
 * A guess that is wrong costs a lock and a row that are not used; if it stops the transaction, that begins again without guesses. After three
 * wrong guesses in succession a pattern is guessed no more, until a run had to wait for such a key again. A script is known by the hash of its
 * text, SHA-1 or name; two scripts with one place in the table forget each other's patterns.
 */
#pragma once

#include "shared/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct script_keys; /* of a partition */

/* A call of a script: EVAL, EVALSHA, FCALL. */
struct script_words {
    struct bytes space;  /* storage namespace: nothing is learned from another one */
    struct bytes script; /* text, SHA-1, or name of the function */
    const struct bytes *words;
    uint32_t count;
};

struct script_keys *script_keys_new(void);
/* NULL is allowed. */
void script_keys_free(struct script_keys *keys);
/* The script had to wait for a key that it does not declare. */
void script_keys_learn(struct script_keys *keys, const struct script_words *call, struct bytes key,
                       bool writes);
/* A key that the script will probably use. `pattern` names the guess for script_keys_judge; it is never 0. */
typedef void script_keys_fn(void *owner, struct bytes key, bool writes, uint32_t pattern);
/* Calls the function for each; `counts`: numbers are one higher in the next run. */
void script_keys_guess(struct script_keys *keys, const struct script_words *call, bool counts,
                       script_keys_fn *on_key, void *owner);
/* Was the guessed key used? */
void script_keys_judge(struct script_keys *keys, uint32_t pattern, bool is_used);
