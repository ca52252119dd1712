package harness

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Proxy takes connections at one address and gives each to the next of its backends, as
// a Service does. Without backends it closes them.
type Proxy struct {
	listener net.Listener

	mu       sync.Mutex
	backends []string
	next     int
	closed   bool
	open     map[net.Conn]bool
	served   map[string]int
	running  sync.WaitGroup
}

// NewProxy listens at a free loopback address.
func NewProxy() (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a proxy: %w", err)
	}
	p := &Proxy{listener: listener, open: map[net.Conn]bool{}, served: map[string]int{}}
	p.running.Go(p.accept)
	return p, nil
}

// Address of the proxy.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// SetBackends says where new connections go.
func (p *Proxy) SetBackends(addresses ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backends = addresses
}

// Served counts the connections that each backend has got so far.
func (p *Proxy) Served() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	served := map[string]int{}
	for backend, n := range p.served {
		served[backend] = n
	}
	return served
}

// Cut ends the connections there are, so that clients have to come back over new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for connection := range p.open {
		_ = connection.Close() // it may have ended by itself
	}
}

// Close ends the proxy and all connections.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.Cut()
	p.running.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if !p.track(client) {
			return
		}
		p.running.Go(func() { p.carry(client) })
	}
}

// carry joins a client with a backend until either ends.
func (p *Proxy) carry(client net.Conn) {
	defer p.drop(client)
	server, err := p.dial()
	if err != nil || !p.track(server) {
		return
	}
	defer p.drop(server)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, server) // however it ends, it has ended
		_ = client.Close()
	})
	_, _ = io.Copy(server, client)
	_ = server.Close()
	back.Wait()
}

var errNoBackend = errors.New("no backend")

// dial tries one backend after the other.
func (p *Proxy) dial() (net.Conn, error) {
	p.mu.Lock()
	backends, first := p.backends, p.next
	p.next++
	p.mu.Unlock()
	for i := range backends {
		backend := backends[(first+i)%len(backends)]
		server, err := net.Dial("tcp", backend)
		if err == nil {
			p.mu.Lock()
			p.served[backend]++
			p.mu.Unlock()
			return server, nil
		}
	}
	return nil, errNoBackend
}

func (p *Proxy) track(connection net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = connection.Close()
		return false
	}
	p.open[connection] = true
	return true
}

func (p *Proxy) drop(connection net.Conn) {
	_ = connection.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, connection)
}

// Backends are where new connections go.
func (p *Proxy) Backends() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.backends
}
