package checks

import (
	"net"
	"strconv"
)

// place is where this pod stands among the nodes of its job: the variables of torchrun,
// which the controller gives to the containers that a runtime's envInjection names.
type place struct {
	rank, nodes int
	address     string // of rank 0
	port        int
}

const defaultPort = 29500

// placeOf is false if the variables are not there.
func placeOf(env Env) (place, bool) {
	p := place{address: env.Get("PET_MASTER_ADDR"), port: defaultPort}
	var known bool
	if p.nodes, known = env.number("PET_NNODES"); !known {
		return p, false
	}
	if p.rank, known = env.number("PET_NODE_RANK"); !known {
		return p, false
	}
	if port, ok := env.number("PET_MASTER_PORT"); ok {
		p.port = port
	}
	return p, p.address != "" && p.nodes > 0
}

// at is the address of rank 0, a number of ports above the job's own.
func (p place) at(above int) string {
	return net.JoinHostPort(p.address, strconv.Itoa(p.port+above))
}
