// etcd.go - the oracle of backend/consensus: etcd's raft obeys the same schedule as copies.c, and prints the same lines.
//
// Members 1 to 3 vote, 4 learns; record 1 is there. One command a line, then one line with the state of all members:
//
//	campaign N · propose N · rest N (its lease of the leader ends) · crash N · cut FROM TO 0|1 · double 0|1 · transfer N TO ·
//	promote N 4 · remove N MEMBER · beat · end (all begin again)
//
// After a command that sends messages, these are delivered until there are none, leaders send heartbeats, and messages are delivered
// again, three times.
package main

import (
	"bufio"
	"fmt"
	"io/ioutil"
	"log"
	"os"

	"go.etcd.io/etcd/raft"
	pb "go.etcd.io/etcd/raft/raftpb"
)

const members, electionTicks = 4, 2000

type member struct {
	node    *raft.RawNode
	storage *raft.MemoryStorage
	rested  bool // its lease of the leader has ended
}

var (
	all    [members + 1]*member
	queue  []pb.Message
	cut    [members + 1][members + 1]bool
	double bool
	skips  bool // a member stood by itself, by a chance of one in electionTicks: the rest of the schedule is not compared
	quiet  = &raft.DefaultLogger{Logger: log.New(ioutil.Discard, "", 0)}
)

// Commands after which messages are delivered.
var speaks = map[string]bool{"campaign": true, "propose": true, "transfer": true, "promote": true, "remove": true, "beat": true}

var hasLeader = map[pb.MessageType]bool{pb.MsgApp: true, pb.MsgHeartbeat: true, pb.MsgSnap: true}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func (m *member) start(id uint64) {
	node, err := raft.NewRawNode(&raft.Config{ID: id, ElectionTick: electionTicks, HeartbeatTick: 1, Storage: m.storage,
		Applied: 1, MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 64, CheckQuorum: true, PreVote: true, Logger: quiet,
		DisableProposalForwarding: true})
	check(err)
	m.node, m.rested = node, false
}

func begin() {
	queue, cut, double, skips = nil, [members + 1][members + 1]bool{}, false, false
	for id := uint64(1); id <= members; id++ {
		all[id] = &member{storage: raft.NewMemoryStorage()}
		snapshot := pb.Snapshot{Metadata: pb.SnapshotMetadata{Index: 1, Term: 1,
			ConfState: pb.ConfState{Voters: []uint64{1, 2, 3}, Learners: []uint64{4}}}}
		check(all[id].storage.ApplySnapshot(snapshot))
		check(all[id].storage.SetHardState(pb.HardState{Term: 1, Commit: 1}))
		all[id].start(id)
	}
}

func (m *member) persist() {
	for m.node.HasReady() {
		ready := m.node.Ready()
		if !raft.IsEmptyHardState(ready.HardState) {
			check(m.storage.SetHardState(ready.HardState))
		}
		check(m.storage.Append(ready.Entries))
		queue = append(queue, ready.Messages...)
		for _, entry := range ready.CommittedEntries {
			if entry.Type == pb.EntryConfChange {
				var change pb.ConfChange
				check(change.Unmarshal(entry.Data))
				m.node.ApplyConfChange(change)
			}
		}
		m.node.Advance(ready)
	}
}

func deliver() {
	for steps := 0; len(queue) > 0 && steps < 5000; steps++ {
		message := queue[0]
		queue = queue[1:]
		if cut[message.From][message.To] {
			continue
		}
		times := 1
		if double {
			times = 2
		}
		for ; times > 0; times-- {
			_ = all[message.To].node.Step(message)
			all[message.To].persist()
			if hasLeader[message.Type] && message.Term == all[message.To].node.Status().Term {
				all[message.To].rested = false
			}
		}
	}
}

func (m *member) leads() bool {
	return m.node.Status().RaftState == raft.StateLeader
}

// A leader takes batches when a record of its own term is committed: so does the core.
func (m *member) serves() bool {
	status := m.node.Status()
	term, err := m.storage.Term(status.Commit)
	return m.leads() && err == nil && term == status.Term
}

func obey(command string, a, b, c int) {
	m := all[a]
	switch command {
	case "campaign":
		if !m.leads() {
			check(m.node.Campaign())
		}
	case "propose":
		if m.serves() {
			check(m.node.Propose([]byte("x")))
		}
	case "rest":
		before := m.node.Status().RaftState
		for i := 0; i < electionTicks && !m.leads() && !m.rested; i++ {
			m.node.Tick()
		}
		m.rested = true
		skips = skips || m.node.Status().RaftState != before
	case "crash":
		m.start(uint64(a))
		m.persist() // changes of the members are applied again
	case "cut":
		cut[a][b] = c != 0
	case "double":
		double = a != 0
	case "transfer":
		if m.serves() {
			m.node.TransferLeader(uint64(b))
		}
	case "promote":
		if m.serves() {
			check(m.node.ProposeConfChange(pb.ConfChange{Type: pb.ConfChangeAddNode, NodeID: uint64(b)}))
		}
	case "remove":
		if m.serves() && a != b {
			check(m.node.ProposeConfChange(pb.ConfChange{Type: pb.ConfChangeRemoveNode, NodeID: uint64(b)}))
		}
	}
}

func run() {
	for id := 1; id <= members; id++ {
		all[id].persist()
	}
	for round := 0; round < 3; round++ {
		deliver()
		for id := 1; id <= members; id++ {
			if all[id].leads() {
				all[id].node.Tick()
				all[id].persist()
			}
		}
	}
	deliver()
}

func show() {
	if skips {
		fmt.Println("skip")
		return
	}
	for id := 1; id <= members; id++ {
		status := all[id].node.Status()
		last, err := all[id].storage.LastIndex()
		check(err)
		leads := 0
		if all[id].leads() {
			leads = 1
		}
		fmt.Printf("%d:term=%d,vote=%d,leads=%d,commit=%d,log=", id, status.Term, status.Vote, leads, status.Commit)
		for index := uint64(2); index <= last; index++ {
			term, err := all[id].storage.Term(index)
			check(err)
			fmt.Printf("%d.", term)
		}
		fmt.Print(" ")
	}
	fmt.Println()
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	begin()
	for lines.Scan() {
		var command string
		var a, b, c int
		_, _ = fmt.Sscan(lines.Text(), &command, &a, &b, &c)
		if command == "end" {
			begin()
			continue
		}
		obey(command, a, b, c)
		if speaks[command] {
			run()
		}
		show()
	}
}
