package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
)

// Ports come from below the range in which the usual kernels place outgoing
// connections: a port from that range could be taken by any client between our
// look and the component's bind.
const (
	firstPort = 20000
	lastPort  = 31999
)

// freePorts returns n different loopback ports on which nobody listens now.
// Somebody may by the time a component binds them: that shows as a failed start
// and is answered there, with other ports.
func freePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	var failure error
	for tries := 0; len(ports) < n; tries++ {
		if tries > 200 {
			return nil, fmt.Errorf("found no free port between %d and %d: %w", firstPort, lastPort, failure)
		}
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			failure = err
			continue
		}
		// Held until all are found, so that none is handed out twice.
		defer l.Close()
		ports = append(ports, port)
	}
	return ports, nil
}

// errPortTaken says that a component ended because it lost the race for a port.
var errPortTaken = errors.New("port taken by another process")

// lostPort reads a component's last words. Go programs on every Unix report the
// same text for EADDRINUSE.
func lostPort(log string) bool {
	return strings.Contains(log, "address already in use")
}
