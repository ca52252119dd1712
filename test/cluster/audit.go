package cluster

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

const auditPolicyFile = "audit-policy.yaml"

// auditPolicy records who asked for what and how it ended, for every request.
// A watch is recorded twice, at its start and at its end; all else at its end.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// AuditEvent is one request to the API server, as far as tests are concerned.
type AuditEvent struct {
	Stage     string // ResponseComplete, for an open watch ResponseStarted
	Verb      string // get, list, watch, create, update, patch, delete, deletecollection
	User      string
	UserAgent string
	// Credential tells credentials of one user apart; for a token it is "JTI=" and
	// the token's ID.
	Credential string
	// Group, Resource, Subresource, Namespace and Name are empty for requests
	// that are not about objects. Name is also empty for a create.
	Group, Resource, Subresource string
	Namespace, Name              string
	RequestURI                   string
	Code                         int // of the response; 0 if there was none
	Received                     time.Time
}

// IsWrite reports whether the request was one that changes something.
func (e AuditEvent) IsWrite() bool {
	switch e.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// AuditFilter selects events; an empty field selects all.
type AuditFilter struct {
	User            string
	UserAgentPrefix string
	Verbs           []string
	Group           string
	// Resource may name a subresource too, as in "jobsets/status". Without one
	// it stands for the resource and all its subresources.
	Resource  string
	Namespace string
	Name      string
	// Writes leaves out everything that only reads.
	Writes bool
	// Match is a condition of the caller's own.
	Match func(AuditEvent) bool
}

func (f AuditFilter) matches(e AuditEvent) bool {
	same := func(want, got string) bool { return want == "" || want == got }
	verb := len(f.Verbs) == 0
	for _, v := range f.Verbs {
		verb = verb || v == e.Verb
	}
	resource, subresource, exact := strings.Cut(f.Resource, "/")
	return verb &&
		same(f.User, e.User) && strings.HasPrefix(e.UserAgent, f.UserAgentPrefix) &&
		same(f.Group, e.Group) && same(resource, e.Resource) && (!exact || subresource == e.Subresource) &&
		same(f.Namespace, e.Namespace) && same(f.Name, e.Name) &&
		(!f.Writes || e.IsWrite()) &&
		(f.Match == nil || f.Match(e))
}

// AuditPosition is a place in the audit log between two events.
type AuditPosition int64

// AuditNow returns the place after everything answered so far. The zero
// position is the start of the cluster.
func (c *Cluster) AuditNow(ctx context.Context) (AuditPosition, error) {
	if !c.opts.AuditLog {
		return 0, errors.New("this cluster keeps no audit log: set Options.AuditLog")
	}
	return c.auditBarrier(ctx)
}

// AuditEvents returns, in the order of their ends, the requests after a
// position that the filter selects. Whatever was answered before the call is
// among them.
func (c *Cluster) AuditEvents(ctx context.Context, after AuditPosition, filter AuditFilter) ([]AuditEvent, error) {
	events, _, err := c.AuditRead(ctx, after, filter)
	return events, err
}

// AuditRead is AuditEvents for who reads on later: it also returns the position
// after what it has read.
func (c *Cluster) AuditRead(ctx context.Context, after AuditPosition, filter AuditFilter) ([]AuditEvent, AuditPosition, error) {
	end, err := c.AuditNow(ctx)
	if err != nil {
		return nil, after, err
	}
	f, err := os.Open(c.auditFile())
	if err != nil {
		return nil, after, fmt.Errorf("open the audit log: %w", err)
	}
	defer f.Close()
	events, err := decodeAudit(io.NewSectionReader(f, int64(after), int64(end-after)), filter)
	return events, end, err
}

// auditBarrier makes a request that nobody else makes and waits until the log
// shows it, because an answer may reach its client before its line reaches the
// file. Its position is the end of that line.
func (c *Cluster) auditBarrier(ctx context.Context) (AuditPosition, error) {
	before, err := os.Stat(c.auditFile())
	if err != nil {
		return 0, fmt.Errorf("look at the audit log: %w", err)
	}
	mark := "audit-barrier-" + rand.Text()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server()+"/version?"+mark, nil)
	if err != nil {
		return 0, err
	}
	if _, err := fetch(c.probe, request); err != nil {
		return 0, fmt.Errorf("mark the audit log: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("the mark does not show in the audit log"))
	defer cancel()
	var end AuditPosition
	err = poll(ctx, 5*time.Millisecond, func(context.Context) (bool, error) {
		data, err := readFrom(c.auditFile(), before.Size())
		if err != nil {
			return false, err
		}
		at := bytes.Index(data, []byte(mark))
		if at < 0 {
			return false, nil
		}
		newline := bytes.IndexByte(data[at:], '\n')
		end = AuditPosition(before.Size() + int64(at+newline+1))
		return newline >= 0, nil
	})
	return end, err
}

func readFrom(path string, offset int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, offset, 1<<62))
}

// decodeAudit reads the log's format, one JSON object a line, without the
// requests of this package itself.
func decodeAudit(log io.Reader, filter AuditFilter) ([]AuditEvent, error) {
	var events []AuditEvent
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var line struct {
			Stage, Verb, UserAgent, RequestURI string
			User                               struct {
				Username string
				Extra    map[string][]string
			}
			ObjectRef                struct{ APIGroup, Resource, Subresource, Namespace, Name string }
			ResponseStatus           struct{ Code int }
			RequestReceivedTimestamp time.Time
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("decode the audit log: %w", err)
		}
		event := AuditEvent{
			Stage: line.Stage, Verb: line.Verb, User: line.User.Username, UserAgent: line.UserAgent,
			Group: line.ObjectRef.APIGroup, Resource: line.ObjectRef.Resource, Subresource: line.ObjectRef.Subresource,
			Namespace: line.ObjectRef.Namespace, Name: line.ObjectRef.Name,
			RequestURI: line.RequestURI, Code: line.ResponseStatus.Code, Received: line.RequestReceivedTimestamp,
		}
		if ids := line.User.Extra["authentication.kubernetes.io/credential-id"]; len(ids) > 0 {
			event.Credential = ids[0]
		}
		if strings.Contains(event.RequestURI, "audit-barrier-") || !filter.matches(event) {
			continue
		}
		events = append(events, event)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return events, nil
}

func (c *Cluster) auditFile() string { return c.path("logs", "audit.log") }

func writeAuditPolicy(_ context.Context, c *Cluster) error {
	if !c.opts.AuditLog {
		return nil
	}
	return writeFile(c.path(auditPolicyFile), []byte(auditPolicy), 0o644)
}
