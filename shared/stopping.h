/*
 * stopping.h - messages between a partition that stops and its proxies, so that the result of every request is known.
 *
 *   proxy ── SCREE STOPS ─────────► partition        on each connection, with its greeting
 *         ◄── +OK
 *                                      SIGTERM: it accepts no connection any more
 *         ◄── STOPPING_FRAME ───────
 *         ── requests in flight ────►  are executed and answered
 *         ── closes the connection, when all are answered; new requests wait for the next connection (upstream_hold.c)
 *                                      when all proxies have closed, or after drain-timeout: it stops
 *
 * A blocking command (SCREE WAIT, backend/session/waits.h) is given back to the proxy unexecuted, with the number that the proxy gave
 * it. The proxy sends it again when the shard is back:
 *
 *   >3\r\n:<number>\r\n+stopping\r\n<the command, an array of bulk strings>
 */
#pragma once

#define STOPPING_FRAME ">1\r\n$14\r\nscree-stopping\r\n"
#define STOPPING_WORD  "+stopping\r\n"
