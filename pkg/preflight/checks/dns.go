package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/trainjob/controller/pkg/preflight/report"
)

var dnsSpec = Spec{
	Name: "dns", Proves: "rank 0 is found by name, again and again",
	Stage: Local, Default: true, Timeout: 120 * time.Second, Attempts: 1, Exhausted: report.Fatal, Failure: "20, then 30; fallback address reached: warning",
	New: func(flags *pflag.FlagSet) Check {
		c := &dns{}
		flags.StringSliceVar(&c.names, "dns-names", nil, "names to look up, by default PET_MASTER_ADDR")
		flags.StringVar(&c.server, "dns-server", "", "server to ask, host:port, instead of those of /etc/resolv.conf")
		flags.StringVar(&c.fallback, "dns-fallback-addr", "", "address, host:port with an IP, whose being reached makes a failure a warning")
		flags.IntVar(&c.successes, "dns-successes", 5, "answers in a row that are asked for: servers do not always agree at first")
		flags.DurationVar(&c.interval, "dns-interval", time.Second, "time between two questions")
		return c
	},
}

type dns struct {
	names            []string
	server, fallback string
	successes        int
	interval         time.Duration
}

// oneQuestion is how long an answer may take.
const oneQuestion = 5 * time.Second

func (c *dns) Run(ctx context.Context, env Env) report.Finding {
	names := c.names
	if len(names) == 0 {
		if name := env.Get("PET_MASTER_ADDR"); name != "" {
			names = []string{name}
		}
	}
	if len(names) == 0 {
		return skip("NoNames", "PET_MASTER_ADDR is not set, and --dns-names names nothing")
	}
	// Some of the time is kept for the fallback.
	inTime, cancel := beforeEnd(ctx, tcpDialTime)
	defer cancel()
	questions := 0
	for _, name := range names {
		asked, err := c.settled(inTime, name, env)
		questions += asked
		if err != nil {
			return c.failed(ctx, name, asked, err)
		}
	}
	finding := pass(fmt.Sprintf("%s: found %d times in a row", strings.Join(names, ", "), c.successes))
	finding.Observed = map[string]string{"questions": fmt.Sprint(questions)}
	return finding
}

// beforeEnd ends before ctx does, so that something can still be done.
func beforeEnd(ctx context.Context, before time.Duration) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-min(before, time.Until(end)/4)))
}

// settled asks until there were enough answers in a row; returns the last error if its
// time is over before, and how often it asked.
func (c *dns) settled(ctx context.Context, name string, env Env) (int, error) {
	resolver := c.resolver()
	var last error
	inRow := 0
	for asked := 1; ; asked++ {
		start := time.Now()
		question, cancel := context.WithTimeout(ctx, oneQuestion)
		addresses, err := resolver.LookupHost(question, name)
		cancel()
		switch {
		case err == nil && len(addresses) > 0:
			if inRow++; inRow >= c.successes {
				return asked, nil
			}
		// A question that the end of the time has cut short tells nothing new.
		case last == nil || !isTimeout(err) || time.Since(start) >= oneQuestion:
			inRow, last = 0, err
			if asked == 1 || asked%15 == 0 {
				env.Note("dns: %s is not found yet: %v", name, err)
			}
		}
		select {
		case <-ctx.Done():
			if last == nil {
				last = fmt.Errorf("%d of %d answers in a row when the time was over", inRow, c.successes)
			}
			return asked, last
		case <-time.After(c.interval):
		}
	}
}

func isTimeout(err error) bool {
	var dnsErr *net.DNSError
	return errors.As(err, &dnsErr) && dnsErr.IsTimeout
}

func (c *dns) resolver() *net.Resolver {
	resolver := &net.Resolver{PreferGo: true}
	if c.server != "" {
		resolver.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, c.server)
		}
	}
	return resolver
}

func (c *dns) failed(ctx context.Context, name string, asked int, err error) report.Finding {
	reason, hint := "DNSFailed", "look at the cluster's DNS"
	var dnsErr *net.DNSError
	if errors.As(err, &dnsErr) {
		switch {
		case dnsErr.IsNotFound:
			reason, hint = "DNSNameNotFound", "see that the headless Service exists with publishNotReadyAddresses, and that rank 0 has been given a node"
		case dnsErr.IsTimeout:
			reason, hint = "DNSTimeout", "no DNS server answers: look at network policies and at the cluster's DNS"
		}
	}
	message := fmt.Sprintf("%s: %v, asked %d times", name, err, asked)
	if c.fallback != "" {
		if state, _ := dial(ctx, c.fallback); state != unreachable {
			return warn(report.ScopeCluster, reason, message+"; the fallback address "+c.fallback+" is reached", hint)
		}
		message += "; nor is the fallback address " + c.fallback + " reached"
	}
	finding := fail(report.Retryable, report.ScopeCluster, reason, message, hint)
	finding.Observed = map[string]string{"questions": fmt.Sprint(asked)}
	return finding
}
