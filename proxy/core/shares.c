#include "proxy/core/shares.h"

#include "shared/check.h"
#include "shared/table.h"

#include <pthread.h>
#include <stdlib.h>

struct shares {
    pthread_mutex_t mutex;
    struct table *by_name;
};

struct shares *shares_new(void)
{
    struct shares *shares = calloc(1, sizeof *shares);
    CHECK(shares);
    CHECK(pthread_mutex_init(&shares->mutex, NULL) == 0);
    shares->by_name = table_new();
    return shares;
}

void shares_free(struct shares *shares)
{
    CHECK(table_count(shares->by_name) == 0);
    table_free(shares->by_name);
    (void)pthread_mutex_destroy(&shares->mutex);
    free(shares);
}

static struct share *share_new(struct bytes name)
{
    struct share *share = calloc(1, sizeof *share + name.len + 1);
    CHECK(share);
    if (name.len)
        memcpy(share->text, name.data, name.len);
    share->name = (struct bytes){share->text, name.len};
    return share;
}

struct share *shares_get(struct shares *shares, struct bytes name)
{
    CHECK(pthread_mutex_lock(&shares->mutex) == 0);
    struct share *share = table_get(shares->by_name, name);
    if (!share) {
        share = share_new(name);
        (void)table_put(shares->by_name, name, share);
    }
    share->refs++;
    CHECK(pthread_mutex_unlock(&shares->mutex) == 0);
    return share;
}

struct share *share_ref(struct shares *shares, struct share *share)
{
    CHECK(pthread_mutex_lock(&shares->mutex) == 0);
    share->refs++;
    CHECK(pthread_mutex_unlock(&shares->mutex) == 0);
    return share;
}

void share_unref(struct shares *shares, struct share *share)
{
    CHECK(pthread_mutex_lock(&shares->mutex) == 0);
    if (--share->refs == 0) {
        CHECK(table_remove(shares->by_name, share->name) == share);
        free(share);
    }
    CHECK(pthread_mutex_unlock(&shares->mutex) == 0);
}
