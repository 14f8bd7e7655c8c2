/*
 * hiredis_client.c - what C programs do with Scree: hiredis, synchronous and asynchronous on libuv.
 *
 *   hiredis_client sync HOST PORT     commands, a pipeline, binary data, a transaction
 *   hiredis_client async HOST PORT    1000 SET and GET from callbacks, every reply checked
 *
 * Prints "ok"; otherwise the first thing that was wrong, and ends with 1.
 */
#include <async.h>
#include <hiredis.h>

#include <adapters/libuv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { PIPELINE = 1000 };

#define EXPECT(cond)                                                                               \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static redisReply *command(redisContext *context, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = redisvCommand(context, format, args);
    va_end(args);
    EXPECT(reply);
    return reply;
}

static void expect_text(redisReply *reply, const char *text)
{
    EXPECT(reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS);
    EXPECT(strcmp(reply->str, text) == 0);
    freeReplyObject(reply);
}

static void expect_integer(redisReply *reply, long long number)
{
    EXPECT(reply->type == REDIS_REPLY_INTEGER);
    EXPECT(reply->integer == number);
    freeReplyObject(reply);
}

static void check_pipeline(redisContext *context)
{
    for (int i = 0; i < PIPELINE; i++) {
        EXPECT(redisAppendCommand(context, "SET hiredis:%d value-%d", i, i) == REDIS_OK);
        EXPECT(redisAppendCommand(context, "GET hiredis:%d", i) == REDIS_OK);
    }
    for (int i = 0; i < PIPELINE; i++) {
        char want[32];
        redisReply *reply = NULL;
        EXPECT(redisGetReply(context, (void **)&reply) == REDIS_OK);
        expect_text(reply, "OK");
        EXPECT(redisGetReply(context, (void **)&reply) == REDIS_OK);
        snprintf(want, sizeof want, "value-%d", i);
        expect_text(reply, want);
    }
}

static void check_transaction(redisContext *context)
{
    expect_text(command(context, "MULTI"), "OK");
    expect_text(command(context, "SET {hiredis}a 1"), "QUEUED");
    expect_text(command(context, "INCR {hiredis}a"), "QUEUED");
    redisReply *reply = command(context, "EXEC");
    EXPECT(reply->type == REDIS_REPLY_ARRAY);
    EXPECT(reply->elements == 2);
    EXPECT(reply->element[1]->integer == 2);
    freeReplyObject(reply);
}

static void check_hash(redisContext *context)
{
    expect_integer(command(context, "HSET hiredis:h f v"), 1);
    redisReply *reply = command(context, "HGETALL hiredis:h");
    EXPECT(reply->type == REDIS_REPLY_ARRAY);
    EXPECT(reply->elements == 2);
    freeReplyObject(reply);
    reply = command(context, "GET hiredis:none");
    EXPECT(reply->type == REDIS_REPLY_NIL);
    freeReplyObject(reply);
    expect_integer(command(context, "DEL hiredis:h"), 1);
}

static void run_sync(const char *host, int port)
{
    static const char binary[] = "\0\r\n\xff";
    struct timeval limit = {.tv_sec = 20};
    redisContext *context = redisConnectWithTimeout(host, port, limit);
    EXPECT(context && !context->err);
    EXPECT(redisSetTimeout(context, limit) == REDIS_OK);
    expect_text(command(context, "PING"), "PONG");
    expect_text(command(context, "SET hiredis:bin %b", binary, sizeof binary - 1), "OK");
    redisReply *reply = command(context, "GET hiredis:bin");
    EXPECT(reply->len == sizeof binary - 1);
    EXPECT(memcmp(reply->str, binary, reply->len) == 0);
    freeReplyObject(reply);
    reply = command(context, "NOSUCH");
    EXPECT(reply->type == REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    check_pipeline(context);
    check_transaction(context);
    check_hash(context);
    redisFree(context);
}

static int answered; /* replies seen by on_reply */

static void on_reply(redisAsyncContext *context, void *data, void *want)
{
    redisReply *reply = data;
    EXPECT(reply);
    EXPECT(reply->str && strcmp(reply->str, want) == 0);
    free(want);
    if (++answered == 2 * PIPELINE)
        redisAsyncDisconnect(context);
}

static void on_connect(const redisAsyncContext *context, int status)
{
    EXPECT(status == REDIS_OK);
    EXPECT(!context->err);
}

static char *text(const char *format, int number)
{
    char *copy = malloc(32);
    EXPECT(copy);
    snprintf(copy, 32, format, number);
    return copy;
}

static void run_async(const char *host, int port)
{
    uv_loop_t *loop = uv_default_loop();
    redisAsyncContext *context = redisAsyncConnect(host, port);
    EXPECT(context && !context->err);
    EXPECT(redisLibuvAttach(context, loop) == REDIS_OK);
    EXPECT(redisAsyncSetConnectCallback(context, on_connect) == REDIS_OK);
    for (int i = 0; i < PIPELINE; i++) {
        EXPECT(redisAsyncCommand(context, on_reply, text("OK", i), "SET async:%d v-%d", i, i) ==
               REDIS_OK);
        EXPECT(redisAsyncCommand(context, on_reply, text("v-%d", i), "GET async:%d", i) ==
               REDIS_OK);
    }
    uv_run(loop, UV_RUN_DEFAULT);
    EXPECT(answered == 2 * PIPELINE);
}

int main(int argc, char **argv)
{
    EXPECT(argc == 4);
    if (strcmp(argv[1], "async") == 0)
        run_async(argv[2], atoi(argv[3]));
    else
        run_sync(argv[2], atoi(argv[3]));
    puts("ok");
    return 0;
}
