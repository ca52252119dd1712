package harness

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/trainjob/controller/test/cluster"
)

// Right is what a request needs to be allowed, as RBAC sees it.
type Right struct {
	Verb, Group, Resource string // Resource with its subresource: trainjobs/status
	// Namespace is that of the controller, or "" for any other and for cluster-wide
	// objects. Name is kept for the controller's namespace and for cluster-wide objects.
	Namespace, Name string
}

// UsedRights are those that were needed and granted. A request that was refused for lack
// of rights, or by admission, proves nothing.
func UsedRights(events []cluster.AuditEvent) []Right {
	used := map[Right]bool{}
	for _, event := range events {
		if event.Resource == "" || event.Code == 0 || event.Code == http.StatusForbidden || event.Code == http.StatusUnauthorized {
			continue
		}
		right := Right{Verb: event.Verb, Group: event.Group, Resource: event.Resource}
		if event.Subresource != "" {
			right.Resource += "/" + event.Subresource
		}
		switch event.Namespace {
		case SystemNamespace:
			right.Namespace, right.Name = event.Namespace, event.Name
		case "":
			right.Name = event.Name
		}
		used[right] = true
	}
	return slices.SortedFunc(maps.Keys(used), func(a, b Right) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
}

// FormatRights writes one right a line, its fields separated by tabs.
func FormatRights(rights []Right) []byte {
	var out bytes.Buffer
	for _, r := range rights {
		fmt.Fprintln(&out, strings.Join([]string{r.Verb, r.Group, r.Resource, r.Namespace, r.Name}, "\t"))
	}
	return out.Bytes()
}

// ParseRights reads what FormatRights has written.
func ParseRights(from io.Reader) ([]Right, error) {
	var rights []Right
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) != 5 {
			return nil, fmt.Errorf("%q has %d fields, want 5", lines.Text(), len(fields))
		}
		rights = append(rights, Right{Verb: fields[0], Group: fields[1], Resource: fields[2], Namespace: fields[3], Name: fields[4]})
	}
	return rights, lines.Err()
}

// credentialID is the name by which the audit log calls a token: JTI= and its ID.
func credentialID(token string) (string, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", fmt.Errorf("a token with %d parts, want 3", len(parts))
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", fmt.Errorf("decode a token: %w", err)
	}
	var claims struct {
		ID string `json:"jti"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.ID == "" {
		return "", fmt.Errorf("a token without an ID (%v)", err)
	}
	return "JTI=" + claims.ID, nil
}
