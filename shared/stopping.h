/*
 * stopping.h - what a partition sends to proxies before it stops, so that no request is in doubt.
 *
 *   proxy ── SCREE STOPS ─────────► partition        on each connection, with its greeting
 *         ◄── +OK
 *                                      SIGTERM: it accepts no connection any more
 *         ◄── STOPPING_FRAME ───────
 *         ── requests in flight ────►  are executed and answered
 *         ── closes the connection, when all are answered; new requests wait for the next connection (upstream_hold.c)
 *                                      when all proxies have closed, or after drain-timeout: it stops
 *
 * A command that waits (SCREE WAIT, backend/partition/waits.h) goes back to the proxy, whose number it has: it waits no longer,
 * and nothing was done. The proxy lets it wait again when the shard is back:
 *
 *   >3\r\n:<number>\r\n+stopping\r\n<the command, an array of bulk strings>
 */
#pragma once

#define STOPPING_FRAME ">1\r\n$14\r\nscree-stopping\r\n"
#define STOPPING_WORD  "+stopping\r\n"
