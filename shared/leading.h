/*
 * leading.h - how a proxy hears which copy of a shard leads.
 *
 *   proxy ── SCREE SELF LEADS ────► each copy of the shard     on a connection of its own (proxy/upstream/leaders.h)
 *         ◄── … role leader, generation 1, term 4 …            of the copy that serves; others say: role replica
 *
 *                                       it begins or ends to serve, or hears of another leader
 *         ◄── LEADER_FRAME ────────
 *         ── SCREE SELF LEADS ─────►     and so on
 *
 * A copy is believed about itself only. Of two that say that they lead, the one with the higher generation leads, and of two in the same
 * generation the one with the higher term: the other one has not heard yet that it was replaced.
 */
#pragma once

#define LEADER_FRAME ">1\r\n$12\r\nscree-leader\r\n"
