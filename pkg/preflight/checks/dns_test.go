package checks

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/trainjob/controller/pkg/preflight/report"
)

// dnsServer answers on loopback over UDP; found says, for the n-th question for an A
// record, whether the name is there. It returns its address and how often it was asked.
func dnsServer(t *testing.T, found func(n int) bool) (string, *atomic.Int64) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	asked := new(atomic.Int64)
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var message dnsmessage.Message
			if message.Unpack(buffer[:n]) != nil || len(message.Questions) != 1 {
				continue
			}
			answer := dnsAnswer(message, found, asked)
			if data, err := answer.Pack(); err == nil {
				_, _ = conn.WriteTo(data, from)
			}
		}
	}()
	return conn.LocalAddr().String(), asked
}

func dnsAnswer(message dnsmessage.Message, found func(n int) bool, asked *atomic.Int64) dnsmessage.Message {
	question := message.Questions[0]
	answer := dnsmessage.Message{Header: dnsmessage.Header{ID: message.ID, Response: true, Authoritative: true}, Questions: message.Questions}
	n := asked.Load() + 1
	if question.Type == dnsmessage.TypeA {
		asked.Store(n)
	}
	switch {
	case !found(int(n)):
		answer.RCode = dnsmessage.RCodeNameError
	case question.Type == dnsmessage.TypeA:
		answer.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class},
			Body:   &dnsmessage.AResource{A: [4]byte{10, 1, 2, 3}},
		}}
	}
	return answer
}

func dnsCheck(t *testing.T, server string, flags ...string) Check {
	return made(t, dnsSpec, append([]string{"--dns-server=" + server, "--dns-interval=10ms"}, flags...)...)
}

func TestANameMustBeFoundTimesInARow(t *testing.T) {
	server, asked := dnsServer(t, func(n int) bool { return n > 3 && n != 6 }) // late, and once more away
	env := here(t, nil, "PET_MASTER_ADDR=bert-node-0-0.bert.")
	expect(t, within(t, 30*time.Second, dnsCheck(t, server), env), report.StatusPass, "Passed")
	if n := asked.Load(); n < 11 {
		t.Errorf("asked %d times; it was there for five in a row at the eleventh", n)
	}
}

func TestANameThatIsNeverFound(t *testing.T) {
	server, _ := dnsServer(t, func(int) bool { return false })
	env := here(t, nil, "PET_MASTER_ADDR=bert-node-0-0.bert.")
	got := within(t, time.Second, dnsCheck(t, server), env)
	expect(t, got, report.StatusFail, "DNSNameNotFound")
	if got.Outcome != report.Retryable {
		t.Errorf("the outcome is %s", got.Outcome)
	}
}

func TestNamesThatComeAndGoAreNotFound(t *testing.T) {
	server, _ := dnsServer(t, func(n int) bool { return n%2 == 0 })
	env := here(t, nil, "PET_MASTER_ADDR=bert-node-0-0.bert.")
	expect(t, within(t, time.Second, dnsCheck(t, server), env), report.StatusFail, "DNSNameNotFound")
}

func TestAServerThatDoesNotAnswer(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got := within(t, time.Second, dnsCheck(t, conn.LocalAddr().String(), "--dns-names=a.b."), here(t, nil))
	expect(t, got, report.StatusFail, "DNSTimeout")
}

func TestAFallbackAddressMakesItAWarning(t *testing.T) {
	server, _ := dnsServer(t, func(int) bool { return false })
	env := here(t, nil, "PET_MASTER_ADDR=bert-node-0-0.bert.")
	// A port where nobody listens shows that the host is reached.
	for _, fallback := range []string{closedAddress(t), silentListener(t)} {
		got := within(t, time.Second, dnsCheck(t, server, "--dns-fallback-addr="+fallback), env)
		expect(t, got, report.StatusWarn, "DNSNameNotFound")
	}
	got := within(t, time.Second, dnsCheck(t, server, "--dns-fallback-addr="+deafAddress(t)), env)
	expect(t, got, report.StatusFail, "DNSNameNotFound")
}

func TestWithoutNamesThereIsNothingToLookUp(t *testing.T) {
	expect(t, within(t, time.Second, made(t, dnsSpec), here(t, nil)), report.StatusSkipped, "NoNames")
}
