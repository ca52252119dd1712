package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/trainjob/controller/pkg/preflight/report"
)

// tcpDialTime is how long a connection may take to be made.
const tcpDialTime = 3 * time.Second

var tcpSpec = Spec{
	Name: "tcp", Proves: "rank 0 is reached over the network; with a barrier, that all ranks are there",
	Stage: Network, Default: true, Timeout: tcpDialTime, Attempts: 10, Backoff: 500 * time.Millisecond, Exhausted: report.Reschedule, Failure: "20, then 21",
	New: func(flags *pflag.FlagSet) Check {
		c := &tcp{}
		flags.StringVar(&c.address, "tcp-addr", "", "address to reach, host:port, by default PET_MASTER_ADDR:PET_MASTER_PORT")
		flags.BoolVar(&c.requireListener, "tcp-require-listener", false, "fail if nobody listens there; rank 0's training does not yet")
		flags.BoolVar(&c.listen, "tcp-listen", false, "barrier: rank 0 listens until every other rank has come, and these wait for it; set it for all ranks alike")
		flags.DurationVar(&c.wait, "tcp-barrier-timeout", 2*time.Minute, "how long the ranks wait for each other")
		return c
	},
}

type tcp struct {
	address                 string
	requireListener, listen bool
	wait                    time.Duration
}

// Patience is how long one attempt may take with the barrier, 0 without.
func (c *tcp) Patience() time.Duration {
	if c.listen {
		return c.wait + tcpDialTime
	}
	return 0
}

func (c *tcp) Run(ctx context.Context, env Env) report.Finding {
	at, known := placeOf(env)
	address := c.address
	if address == "" && known {
		address = at.at(0)
	}
	if address == "" {
		return skip("NoAddress", "PET_MASTER_ADDR is not set, and --tcp-addr names nothing")
	}
	if c.listen {
		if !known {
			return notRun("RankUnknown", "PET_NODE_RANK and PET_NNODES are not set, so there is no barrier", "name the container in the runtime's envInjection")
		}
		inTime, cancel := context.WithTimeout(ctx, c.wait)
		defer cancel()
		return meet(inTime, barrier{place: at, address: address}, env)
	}
	if known && at.rank == 0 && c.address == "" && !c.requireListener {
		return pass("this is rank 0")
	}
	switch state, err := dial(ctx, address); state {
	case listening:
		return pass(address + " listens")
	case refused:
		if c.requireListener {
			return fail(report.Retryable, report.ScopePeer, "TCPRefused", address+" is reached, but nobody listens", "see that rank 0 runs")
		}
		return pass(address + " is reached; nobody listens yet")
	default:
		return fail(report.Retryable, report.ScopePeer, "TCPUnreachable", fmt.Sprintf("%s: %v", address, err), "look at network policies and at the network of this node and of rank 0's")
	}
}

// reach is how a connection attempt ended.
type reach int

const (
	unreachable reach = iota
	refused
	listening
)

// dial tells whether an address is reached. A host that refuses has been reached.
func dial(ctx context.Context, address string) (reach, error) {
	dialer := net.Dialer{Timeout: tcpDialTime}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	switch {
	case err == nil:
		return listening, conn.Close()
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused, err
	}
	return unreachable, err
}
